"""An example sweep, printed before anything else is loaded."""

EXAMPLE = """\
# A sweep: every combination of the axes is a cell, and every cell is trained once for each seed.

seeds = 5                    # the seeds 0 to 4, or a list: [0, 17, 42]
engine = "auto"              # fused (native), jax (everything), or auto: the first that can train a trial
# store = "example.db"       # where outcomes are kept, relative to this file
# import = ["my_task.py"]    # files with your own tasks, models and probes, relative to this file

[trial.task]                 # the task: the product of k of the n input signs
kind = "sparse-parity"
n = 20
k = 2

[trial.regime]               # how examples reach the learner: "online", or a fixed sample
kind = "sample"
size = 1000

[trial.model]                # the model
kind = "mlp"
width = 100
init = "sparse:2"            # shorthand for { kind = "sparse", nonzeros = 2 }

[trial.training]
kind = "sgd"
learning_rate = 0.1
weight_decay = 0.01
steps = 2000

[trial.training.stopping]     # solved: a test error of at most 10% on 2000 held-out examples
error = 0.1
examples = 2000
every = 100

[axes]                       # dotted paths into the trial
"model.width" = [10, 100]
"regime" = ["sample:100", "sample:1000"]
"""
"""A commented sweep file that runs in seconds."""
