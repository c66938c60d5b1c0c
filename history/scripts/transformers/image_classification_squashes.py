"""The scores of an image-classification pipeline of a model whose problem is to find one label."""

import sys

import numpy
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor, pipeline

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
config = ViTConfig(image_size=8, patch_size=4, num_labels=3, problem_type="single_label_classification", **sizes)
model = ViTForImageClassification(config).eval()
processor = ViTImageProcessor(size={"height": 8, "width": 8})
classifying = pipeline("image-classification", model=model, image_processor=processor, device="cpu")
image = Image.fromarray(numpy.arange(192, dtype=numpy.uint8).reshape(8, 8, 3))
total = sum(row["score"] for row in classifying(image))
print("the scores of classes of which one is right have the sum", total)
sys.exit(int(abs(total - 1) > 1e-3))
