"""Template operations: legacy, composable and component templates, from the track or from the operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError, closest, did_you_mean
from esbench.measure.verdict import Verdict
from esbench.model import Template, Templates
from esbench.operations.administrative import (
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    Run,
    delete_matching,
    if_exists,
    in_turn,
    query_of,
    segment,
    sending,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import Parameter, flag
from esbench.operations.settings import with_settings
from esbench.requests.script import Session

COMPOSABLE = Feature("composable templates", (7, 8), (1, 0))


@dataclass(frozen=True)
class _Kind:
    """A kind of template: its path, and functions for a track's templates and for a body with further settings."""

    path: str
    of: Callable[[Templates], tuple[Template, ...]]
    body: Callable[[TaskContext, Mapping[str, Any]], dict[str, Any]]


def _legacy_body(context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
    return context.dialect.template_body(with_settings(body, context.params.get("settings")))


def _composable_body(context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
    settings = context.params.get("settings")
    return {**body, "template": with_settings(body.get("template") or {}, settings)} if settings else dict(body)


_LEGACY = _Kind("/_template", attrgetter("legacy"), _legacy_body)
_COMPOSABLE = _Kind("/_index_template", attrgetter("composable"), _composable_body)
_COMPONENT = _Kind("/_component_template", attrgetter("component"), _composable_body)


def _create(kind: _Kind, context: TaskContext) -> Iterable[Call]:
    params = context.params
    if params.get("body") is not None:
        if not isinstance(params.get("template"), str):
            what = f'{context.task.operation.type} with a "body" needs a "template"'
            raise TrackError(what, where=context.where)
        templates: tuple[Template, ...] = (Template(params["template"], params["body"]),)
    elif _idleness(kind, params, context.templates):
        templates = ()
    else:
        templates = _chosen(kind.of(context.templates), context, 'give the operation "template" and "body"')
    for template in templates:
        try:
            body = kind.body(context, template.body)
        except TrackError as error:
            raise TrackError(error.what, where=context.where, hint=error.hint) from None
        yield Call("PUT", f"{kind.path}/{segment(template.name)}", query_of(params), body)


def _idleness(kind: _Kind, params: Mapping[str, Any], templates: Templates) -> str:
    if params.get("body") is None and _is_foreign(wanted := params.get("template"), kind.of(templates)):
        return f'the track has no template "{wanted}" of the kind, and the operation no body: it creates nothing'
    return ""


def _delete(kind: _Kind, context: TaskContext) -> Run:
    """Return a function that deletes templates, and then the indices that match their patterns if that is asked for."""
    params = context.params
    templates = kind.of(context.templates)
    if _is_foreign(params.get("template"), templates):
        templates = (_own(context),)
    else:
        templates = _chosen(templates, context, 'give the operation a "template"')
    query, accept = query_of(params), if_exists(params)
    paths = [f"{kind.path}/{segment(template.name)}" for template in templates]
    delete_templates = sending(tuple(Call("DELETE", path, query, accept=accept) for path in paths), context.ledger)

    async def run(session: Session) -> Verdict:
        verdict = await delete_templates(session)
        for template in templates:
            delete_indices = flag(params.get("delete-matching-indices"), template.delete_matching_indices)
            if template.index_pattern and delete_indices:
                await delete_matching(session, template.index_pattern, context.ledger, {})
        return verdict

    return run


def _is_foreign(wanted: Any, templates: tuple[Template, ...]) -> bool:
    """True if `wanted` names a template that the track does not declare, and is no misspelling of a declared one."""
    known = {template.name for template in templates}
    return isinstance(wanted, str) and wanted not in known and not closest(wanted, known)


def _own(context: TaskContext) -> Template:
    """Return a template that the track does not declare; its indices are kept unless the operation deletes them."""
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
    """Return the track's templates that the operation names, or all; raises TrackError for an unknown one."""
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


def _create_type(name: str, doc: str, kind: _Kind, feature: Feature | None = None) -> AdministrativeType:
    parameters = {
        "template": Parameter("which templates of the track; all by default", (str, list)),
        "settings": Parameter("settings merged into those of the template", (dict,)),
        "body": Parameter("a body of its own, with template", (dict,)),
        "request-params": QUERY,
    }
    prepare = in_turn(partial(_create, kind))
    return AdministrativeType(name, doc, parameters, prepare, feature=feature, idle=partial(_idleness, kind))


_CHOICE = "which templates of the track, or the name of another one; all of the track by default"
_DELETE = {"template": Parameter(_CHOICE, (str, list)), "only-if-exists": ONLY_IF_EXISTS}
_DELETE_INDICES = {
    **_DELETE,
    "delete-matching-indices": Parameter("delete the indices of its pattern, too; the track's own say it", (bool,)),
    "index-pattern": Parameter("which indices those are, for a template that the track does not declare"),
    "request-params": QUERY,
}

TYPES = (
    _create_type("create-index-template", "Create the track's legacy templates, or one from its own body.", _LEGACY),
    AdministrativeType(
        "delete-index-template",
        "Delete the track's legacy templates, or the named one, and the indices of their patterns.",
        _DELETE_INDICES,
        partial(_delete, _LEGACY),
    ),
    _create_type(
        "create-composable-template",
        "Create the track's composable templates, or one from its own body.",
        _COMPOSABLE,
        COMPOSABLE,
    ),
    AdministrativeType(
        "delete-composable-template",
        "Delete the track's composable templates, or the named one, and the indices of their patterns.",
        _DELETE_INDICES,
        partial(_delete, _COMPOSABLE),
        feature=COMPOSABLE,
    ),
    _create_type(
        "create-component-template",
        "Create the track's component templates, or one from its own body.",
        _COMPONENT,
        COMPOSABLE,
    ),
    AdministrativeType(
        "delete-component-template",
        "Delete the track's component templates, or the named one.",
        {**_DELETE, "request-params": QUERY},
        partial(_delete, _COMPONENT),
        feature=COMPOSABLE,
    ),
)
