"""Two metrics with the usual methods: one is right, one is a mean of means."""

import torch


class Accuracy:
    """The share of labels that are predicted."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.right, self.count = torch.tensor(0), 0

    def update(self, preds, target):
        self.right = self.right + (preds.argmax(-1) == target).sum()
        self.count += len(target)

    def compute(self):
        return self.right / self.count if self.count else torch.tensor(float("nan"))


class BatchAccuracy(Accuracy):
    """The mean of the accuracy of each batch, which depends on how the data is split."""

    def update(self, preds, target):
        if len(target):
            self.right = self.right + (preds.argmax(-1) == target).double().mean()
            self.count += 1
