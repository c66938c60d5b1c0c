"""Check whether a line end stops the worked answers of mgsm in Basque."""

import sys
from pathlib import Path

import lm_eval
import yaml

FOLDER = Path(lm_eval.__file__).parent / "tasks" / "basque_bench"
(config,) = (
    each
    for each in (yaml.safe_load(path.read_text(encoding="utf-8")) for path in FOLDER.glob("mgsm_*cot*.yaml"))
    if each["task"] == "mgsm_native_cot_eu"
)
stops = config["generation_kwargs"]["until"]
print(stops)
sys.exit(int("\n" in stops))
