"""Index templates: legacy ones, composable ones and their components, of the track or of the operation itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError, closest, did_you_mean
from esbench.measure.verdict import Verdict
from esbench.model import Template, Templates
from esbench.operations.administrative import (
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    Calls,
    RequestType,
    delete_matching,
    if_exists,
    query_of,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import Parameter, flag
from esbench.operations.settings import with_settings
from esbench.operations.traits import ADMINISTRATIVE
from esbench.requests.ledger import Ledger
from esbench.requests.script import Script, Session

COMPOSABLE = Feature("composable templates", (7, 8), (1, 0))

_CREATE = {
    "template": Parameter("which templates of the track; all by default", (str, list)),
    "settings": Parameter("settings merged into those of the template", (dict,)),
    "body": Parameter("a body of its own, with template", (dict,)),
    "request-params": QUERY,
}
_DELETE = {
    "template": Parameter(
        "which templates of the track, or the name of another one; all of the track by default", (str, list)
    ),
    "only-if-exists": ONLY_IF_EXISTS,
    "delete-matching-indices": Parameter("delete the indices of its pattern, too; the track's own say it", (bool,)),
    "index-pattern": Parameter("which indices those are, for a template that the track does not declare"),
    "request-params": QUERY,
}


class _Legacy:
    path = "/_template"

    def of(self, templates: Templates) -> tuple[Template, ...]:
        return templates.legacy

    def body(self, context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
        return context.dialect.template_body(with_settings(body, context.params.get("settings")))


class _Composable:
    path = "/_index_template"
    feature: ClassVar[Feature | None] = COMPOSABLE

    def of(self, templates: Templates) -> tuple[Template, ...]:
        return templates.composable

    def body(self, context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
        settings = context.params.get("settings")
        return {**body, "template": with_settings(body.get("template") or {}, settings)} if settings else dict(body)


class _Component(_Composable):
    path = "/_component_template"

    def of(self, templates: Templates) -> tuple[Template, ...]:
        return templates.component


class _Create(RequestType):
    parameters = _CREATE
    path: str

    def of(self, templates: Templates) -> tuple[Template, ...]:
        raise NotImplementedError

    def idleness(self, params: Mapping[str, Any], templates: Templates) -> str:
        if params.get("body") is None and _is_foreign(wanted := params.get("template"), self.of(templates)):
            return f'the track has no template "{wanted}" of the kind, and the operation no body: it creates nothing'
        return ""

    def body(self, context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        if params.get("body") is not None:
            if not isinstance(params.get("template"), str):
                raise TrackError(f'{self.name} with a "body" needs a "template"', where=context.where)
            templates: tuple[Template, ...] = (Template(params["template"], params["body"]),)
        elif self.idleness(params, context.templates):
            templates = ()
        else:
            templates = _chosen(self.of(context.templates), context, 'give the operation "template" and "body"')
        for template in templates:
            try:
                body = self.body(context, template.body)
            except TrackError as error:
                raise TrackError(error.what, where=context.where, hint=error.hint) from None
            yield Call("PUT", f"{self.path}/{segment(template.name)}", query_of(params), body)


class _Delete(AdministrativeType):
    parameters = _DELETE
    path: str

    def of(self, templates: Templates) -> tuple[Template, ...]:
        raise NotImplementedError

    def script(self, context: TaskContext) -> Script:
        params = context.params
        accept = if_exists(params)
        query = query_of(params)
        templates = self.of(context.templates)
        if _is_foreign(params.get("template"), templates):
            templates = (_own(context),)
        else:
            templates = _chosen(templates, context, 'give the operation a "template"')
        calls = tuple(
            Call("DELETE", f"{self.path}/{segment(template.name)}", query, accept=accept) for template in templates
        )
        patterns = tuple(
            template.index_pattern
            for template in templates
            if template.index_pattern and flag(params.get("delete-matching-indices"), template.delete_matching_indices)
        )
        return _DeleteBoth(Calls(calls, context.ledger), patterns, context.ledger)


@dataclass(frozen=True)
class _DeleteBoth:
    """Deletes templates, and then the indices of their patterns."""

    templates: Calls
    patterns: tuple[str, ...]
    ledger: Ledger

    async def run(self, session: Session) -> Verdict:
        verdict = await self.templates.run(session)
        for pattern in self.patterns:
            await delete_matching(session, pattern, self.ledger, {})
        return verdict


def _is_foreign(wanted: Any, templates: tuple[Template, ...]) -> bool:
    """Whether that is a template that the track does not declare, and no slip in the name of one that it does."""
    known = {template.name for template in templates}
    return isinstance(wanted, str) and wanted not in known and not closest(wanted, known)


def _own(context: TaskContext) -> Template:
    """A template that the track does not declare: its indices stay, unless the operation says otherwise."""
    params = context.params
    delete_indices = flag(params.get("delete-matching-indices"))
    if delete_indices and not params.get("index-pattern"):
        raise TrackError(
            '"delete-matching-indices" needs an "index-pattern"',
            where=context.where,
            hint=f'the track does not declare the template "{params["template"]}"',
        )
    return Template(params["template"], {}, params.get("index-pattern"), delete_indices)


def _chosen(templates: tuple[Template, ...], context: TaskContext, otherwise: str) -> tuple[Template, ...]:
    """The templates of the track that the operation names, or all of them; TrackError for one that it lacks."""
    if not templates:
        raise TrackError("the track declares no such template", where=context.where, hint=otherwise)
    wanted = context.params.get("template")
    if wanted is None:
        return templates
    known = {template.name: template for template in templates}
    names = [wanted] if isinstance(wanted, str) else wanted
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise TrackError(f'the track has no template "{name}"', where=context.where, hint=hint)
    return tuple(known[name] for name in names)


class CreateIndexTemplate(_Legacy, _Create):
    name = "create-index-template"
    traits = ADMINISTRATIVE
    doc = "Create the track's legacy templates, or one from its own body."


class DeleteIndexTemplate(_Legacy, _Delete):
    name = "delete-index-template"
    traits = ADMINISTRATIVE
    doc = "Delete the track's legacy templates, or the named one, and the indices of their patterns."


class CreateComposableTemplate(_Composable, _Create):
    name = "create-composable-template"
    traits = ADMINISTRATIVE
    doc = "Create the track's composable templates, or one from its own body."


class DeleteComposableTemplate(_Composable, _Delete):
    name = "delete-composable-template"
    traits = ADMINISTRATIVE
    doc = "Delete the track's composable templates, or the named one, and the indices of their patterns."


class CreateComponentTemplate(_Component, _Create):
    name = "create-component-template"
    traits = ADMINISTRATIVE
    doc = "Create the track's component templates, or one from its own body."


class DeleteComponentTemplate(_Component, _Delete):
    name = "delete-component-template"
    traits = ADMINISTRATIVE
    doc = "Delete the track's component templates, or the named one."
    parameters = {name: _DELETE[name] for name in ("template", "only-if-exists", "request-params")}
