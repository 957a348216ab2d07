"""Six features in two dimensions form a polygon, in a minute."""

import numpy as np

from elegans.phenomena import Chart, Moment, Phenomenon, Points, Story
from elegans.phenomena.base import Train
from elegans.probes import ParameterTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.probes import NearestPolygon
from elegans.studies.superposition.tasks import SparseFeatures
from elegans.studies.superposition.theory.polygons import polygon_point
from elegans.tasks import Online
from elegans.training import ExactDescent, Square, Trial

STEPS, EVERY = 6000, 40


def _polygon(train: Train, seed: int) -> Story:
    trial = Trial(
        task=SparseFeatures(n=6, one_hot=True),
        regime=Online(),
        model=TiedAutoencoder(hidden=2, scale=0.5),
        training=ExactDescent(
            steps=STEPS,
            learning_rate=0.1,
            loss=Square(scale=2.0),
            stopping=StoppingRule(error=0, examples=1, every=STEPS),
        ),
        seed=seed,
    )
    probes = (ParameterTrajectory(every=EVERY), NearestPolygon(every=EVERY))
    outcome = train(trial, *probes)
    kept, nearest = (outcome.measures[probe.kind] for probe in probes)
    steps = [int(step) for step in nearest["step"]]
    weights, loss = np.asarray(kept["weight"], float), np.asarray(nearest["loss"], float)
    corners = np.asarray(nearest["corners"], int)
    moments = [
        Moment(
            0,
            f"Random weights: the vectors of {corners[0]} features are longer than one half, and count as represented.",
        )
    ]
    for place in range(1, len(steps)):
        if corners[place] != corners[place - 1]:
            moments.append(Moment(steps[place], f"{corners[place]} features are represented."))
    names = {4: "square", 5: "pentagon", 6: "hexagon"}
    levels = {name: polygon_point(count).loss for count, name in names.items()}
    shape = names.get(int(corners[-1]), f"{corners[-1]} features")
    return Story(
        steps,
        [
            Chart(
                "The loss falls to the level of a polygon", {"exact loss": (steps, loss)}, theory=levels, scale="linear"
            ),
            Chart("Features come one by one", {"represented features": (steps, corners)}, scale="linear"),
        ],
        [
            Points(
                "Six features repel each other; one dot per feature",
                weights.transpose(0, 2, 1),
                "weight to the first neuron",
                "weight to the second neuron",
            )
        ],
        moments[:8],
        f"The last state is a {shape}: {corners[-1]} of the six features are represented, with a loss of "
        f"{loss[-1]:.4f}.",
    )


POLYGON = Phenomenon(
    name="polygon",
    shows="Six features in two dimensions repel each other and form a polygon",
    source="Elhage et al. (2022) and Chen et al. (2023): toy models of superposition.",
    setting="An autoencoder with two neurons and a ReLU learns to reproduce six features, only one of them active at a "
    "time. It is trained by gradient descent on the exact loss.",
    watch="Each dot is a feature, placed at its weights to the two neurons. The dots move outwards, push each other "
    "apart, and end as the corners of a square, a pentagon or a hexagon.",
    theory="The loss of each polygon is known in closed form (dashed lines). Which polygon a network reaches depends "
    "on its initial weights.",
    further=(
        "elegans run polygon-levels --scale laptop",
        "elegans claims polygon-levels",
        "elegans theory polygon_point",
    ),
    train=_polygon,
)
