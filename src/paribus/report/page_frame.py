"""What every page of ours has: its styles, its scripts, the policy that names them, and the specs
of its plots.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from paribus import __version__
from paribus.report.charts import Plot
from paribus.report.csv_tables import to_csv

HERE = Path(__file__).parent


def render_template(template: str, drawn: Mapping[str, Plot], **values: Any) -> str:
    """A page of a template, with these plots drawn in it."""
    styles = (HERE / "page.css").read_text("utf-8")
    scripts = [_vega_bundle(), (HERE / "page.js").read_text("utf-8")]
    return (
        _template_environment()
        .get_template(template)
        .render(
            policy=content_security_policy(styles, scripts),
            styles=Markup(styles),
            scripts=list(map(Markup, scripts)),
            specs=Markup(script_safe_json({key: plot.spec for key, plot in drawn.items()})),
            version=__version__,
            **values,
        )
    )


@lru_cache(maxsize=1)  # it keeps the templates that it has compiled
def _template_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_code"] = with_code
    return environment


def with_code(text: str) -> Markup:
    """A sentence of ours, its commands set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def script_safe_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end one, or begin a
    comment.
    """
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def content_security_policy(styles: str, scripts: Sequence[str]) -> str:
    """Nothing but these styles and scripts, named by their hashes; no evaluation, no request."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'sha256-{_digest(styles)}'; base-uri"
        " 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)  # putting it together takes seconds
def _vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def csv_data_url(rows: Iterable[dict[str, Any]]) -> str:
    """The address of a table that lies in the page itself."""
    return "data:text/csv;base64," + base64.b64encode(to_csv(rows).encode()).decode()
