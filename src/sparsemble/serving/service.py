"""The service: an ensemble as an application of FastAPI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.serving.answers import predictions, shown
from sparsemble.serving.batching import Batching
from sparsemble.serving.json_bodies import JsonResponse, JsonRoute
from sparsemble.serving.limits import Bounded, Limits
from sparsemble.serving.page import add_page
from sparsemble.serving.predicting import Errand, Predicting, Question
from sparsemble.serving.requests import Beginning, Row, Rows, in_a_sentence
from sparsemble.tasks import Task


def service_of(
    ensemble: Ensemble,
    name: str = "an ensemble",
    *,
    limits: Limits | None = None,
    unseen: str | None = None,
) -> FastAPI:
    """An application that predicts by an ensemble.

    Args:
        ensemble: Is used by one thread of the application, and by nobody else meanwhile.
        name: What the page calls it.
        limits: On requests.
        unseen: Of a table: refuse or ignore what training did not show, instead of what was said
            when its columns were found.
    """
    limits = limits or Limits()
    task = ensemble.task if unseen is None else ensemble.task.about_unseen(unseen)
    batching = Batching(Predicting(ensemble, task), waiting=limits.waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await batching.stop()

    app = FastAPI(
        title="sparsemble",
        version=version("sparsemble"),
        description=f"{len(ensemble)} {task.noun} of {name}",
        docs_url=None,  # those pages are loaded from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.router.route_class = JsonRoute
    app.add_middleware(Bounded, limits=limits)
    app.add_exception_handler(InputError, _unfit)
    app.add_exception_handler(RequestValidationError, _malformed)
    about = _about(ensemble, task, name)
    _add_facts(app, batching, about)
    _add_predictions(app, batching, task, ensemble)
    add_page(app, task.form(), about)
    return app


def _about(ensemble: Ensemble, task: Task, name: str) -> dict[str, Any]:
    cost = ensemble.cost
    ratios = {"parameters_ratio": cost.parameters_ratio, "flops_ratio": cost.flops_ratio}
    return {
        "name": name,
        "predicts": task.noun,
        "task": task.model_dump(mode="json"),
        "form": asdict(task.form()),
        "members": [
            {"parameters": member.cost.parameters, "flops": member.cost.flops}
            for member in ensemble
        ],
        "cost": asdict(cost) | ratios,
        "version": version("sparsemble"),
    }


def _add_facts(app: FastAPI, batching: Batching[Any], about: dict[str, Any]) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Is the service there, and how many requests wait?"""
        return {"status": "ok", "waiting": len(batching)}

    @app.get("/about")
    async def told() -> JsonResponse:
        """The task with its inputs and names, the members, what they cost, and how to ask."""
        return JsonResponse(about)


def _add_predictions(
    app: FastAPI, batching: Batching[Question | Errand], task: Task, ensemble: Ensemble
) -> None:
    @app.post("/predict")
    async def predict(asked: Rows) -> JsonResponse:
        """A prediction for every row."""

        def answer(evidence: Tensor) -> dict[str, Any]:
            return predictions(task, evidence, members=asked.members)

        question = Question(asked.rows, answer)
        return JsonResponse(await batching.ask(question, len(asked.rows)))

    @app.post("/show", include_in_schema=False)
    async def show(asked: Row) -> JsonResponse:
        """A prediction for one row, as the page shows it."""
        question = Question([asked.row], lambda evidence: shown(task, evidence))
        return JsonResponse(await batching.ask(question))

    @app.post("/continue", include_in_schema=task.form().kind == "writing")
    async def go_on(asked: Beginning) -> JsonResponse:
        """A text gone on with, for language models."""

        def drawn() -> dict[str, Any]:
            return asdict(task.continued(ensemble, **asked.model_dump()))

        return JsonResponse(await batching.ask(Errand(drawn)))


async def _unfit(_: Request, error: Exception) -> JsonResponse:
    return JsonResponse({"detail": str(error)}, 422)


async def _malformed(_: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, RequestValidationError)
    return JsonResponse({"detail": in_a_sentence(error.errors())}, 422)
