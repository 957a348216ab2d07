"""What a worker sends that is no report of its batch is refused in one line, whatever it is."""

import pickle
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import elegans as el
from elegans.errors import SweepError
from elegans.sweeps.dask_client import DaskWorkers, _Flight
from elegans.sweeps.dask_worker import BatchReport

TRIAL = el.Trial(
    task=el.SparseParity(n=8, k=1), regime=el.Sample(20), model=el.MLP(width=3), training=el.SGD(steps=4), seed=0
)
FIELDS = {"state": "unsolved", "steps": 4, "seconds": 0.1}


def workers():
    client = SimpleNamespace(subscribe_topic=lambda *_: None, status="running")
    flying = DaskWorkers(SimpleNamespace(client=client, slots=1, place="tcp://host"), (), threading.Event())
    flying.flights["batch"] = _Flight(None, SimpleNamespace(side_by_side=1, name="fused"), [TRIAL])
    return flying


@pytest.mark.parametrize(
    ("outcomes", "seconds", "message"),
    [
        ({0: {**FIELDS, "seconds": "x"}}, 0.1, "seconds must be a finite number: 'x'"),
        ({0: {**FIELDS, "seconds": np.full(3, np.nan)}}, 0.1, "seconds must be a finite number: a ndarray"),
        ({0: FIELDS}, None, "seconds must be a finite number: None"),
        ({0: FIELDS}, float("nan"), "seconds must be a finite number: nan"),
        ({0: {**FIELDS, "state": "x\x1b"}}, 0.1, "no outcome has this state: "),
        ({0: {**FIELDS, "state": []}}, 0.1, "no outcome has this state: []"),
        ({-1: FIELDS}, 0.1, "no trial has this position: -1"),
        ({True: FIELDS}, 0.1, "no trial has this position: True"),
    ],
)
def test_a_report_that_is_none_is_refused_in_one_line(outcomes, seconds, message):
    with pytest.raises(SweepError, match=re.escape(message)) as raised:
        workers()._take("batch", "finished", pickle.dumps(BatchReport(outcomes, seconds)))
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)


def test_a_report_of_the_batch_is_taken():
    (outcome,) = workers()._take("batch", "finished", pickle.dumps(BatchReport({0: FIELDS}, 0.1)))
    assert (outcome.trial, outcome.state) == (TRIAL, "unsolved")


@pytest.mark.parametrize(
    "event", [(0, np.float32(1)), (0, np.zeros(3)), (0, {"key": "batch", "steps": [1]}), (0, None)]
)
def test_an_event_that_is_no_progress_is_ignored(event):
    flying = workers()
    flying._told(event)
    assert flying.under_way == {}
