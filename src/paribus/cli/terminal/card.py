"""One architecture on a card: its blocks, its masks, its price."""

from __future__ import annotations

from collections.abc import Iterator

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.arguments import Asked, notes_of
from paribus.cli.terminal.picture import Panel, panels, picture
from paribus.cli.terminal.prices import MEANING, price_table, terms
from paribus.cli.terminal.spelling import spans, spelled
from paribus.spec import Block, Dense, Experts, Latent, MultiHead, Price, Resolved, Stack, fingerprint

_PICTURES_WIDTH = 120  # where the page is wider, pictures still break into rows


def card(one: Asked, price: Price, page: Console) -> None:
    """Print everything there is to know before building."""
    page.print(one.name, style="bold")
    if one.about:
        page.print(one.about)
    for note in notes_of([one]):
        page.print(note, style="yellow")
    page.print()
    page.print(_facts(one.spec))
    page.print()
    page.print(_blocks(one.spec))
    page.print()
    page.print(_pictures(one.spec, price, page), width=min(page.width, _PICTURES_WIDTH))
    page.print()
    page.print(price_table([one.name], [price], titled=False))
    page.print()
    page.print(f"At {terms(price, one.spec.stack.masks)}. {MEANING}", style="dim")


def _facts(spec: Resolved) -> Table:
    dump = spec.model_dump(mode="json")
    rows = {
        "fingerprint": fingerprint(spec)[:12],
        "sizes": f"n_vocab={spec.n_vocab}, max_length={spec.max_length}, d_model={spec.d_model}",
        "norm": f"{spec.placement}, {spelled(dump['norm'])}",
        "positions": spelled(dump["stack"]["positions"]),
        **{name: spelled(dump[name]) for name in ("embedding", "head", "start", "dropout")},
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _blocks(spec: Resolved) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    for name, stack in _stacks(spec):
        for block, layers in _alike(stack).items():
            heading = f"{name} {spans(layers)}"
            for label, text in _parts(block):
                table.add_row(heading, label, text)
                heading = ""
    if spec.shared:
        table.add_row("", "", "the encoder's blocks are the stack's own, without the cross-attention")
    return table


def _stacks(spec: Resolved) -> Iterator[tuple[str, Stack]]:
    if spec.encoder is not None:
        yield "encoder layers", spec.encoder
        yield "decoder layers", spec.stack
    else:
        yield "layers", spec.stack


def _alike(stack: Stack) -> dict[Block, list[int]]:
    found: dict[Block, list[int]] = {}
    for number, block in enumerate(stack.layers):
        found.setdefault(block, []).append(number)
    return found


def _parts(block: Block) -> Iterator[tuple[str, str]]:
    yield "mask", str(block.mask)
    yield "attention", _attention(block.attention)
    if block.cross is not None:
        yield "cross-attention", f"to the source, {block.cross}"
    yield "feed-forward", _feed_forward(block.feed_forward)
    if isinstance(block.feed_forward, Experts):
        dump = block.feed_forward.model_dump(mode="json")
        yield "router", spelled(dump["router"])
        yield "balance", spelled(dump["balance"])


def _attention(attention: MultiHead | Latent) -> str:
    if isinstance(attention, Latent):
        queries = f", queries from {attention.d_query_latent}" if attention.d_query_latent else ""
        return (
            f"latent {attention.d_latent}: {attention.n_heads} heads × ({attention.d_content} + "
            f"{attention.d_rotary} rotary), values × {attention.d_value}{queries}"
        )
    assert attention.d_head
    grouped = attention.n_kv_heads != attention.n_heads
    parts = [
        f"{attention.n_heads} heads × {attention.d_head}",
        f"{attention.n_kv_heads} key/value heads" if grouped else "",
        "bias" if attention.bias else "",
        "query-key norm" if attention.qk_norm else "",
        "" if attention.score_scale == attention.d_head**-0.5 else f"scores × {attention.score_scale:g}",
    ]
    return ", ".join(filter(None, parts))


def _feed_forward(given: Dense | Experts) -> str:
    kind = f"{'gated ' if given.gated else ''}{given.activation}"
    if isinstance(given, Dense):
        return f"{kind} × {given.d_ff}{', bias' if given.bias else ''}"
    shared = f" + {given.n_shared} shared" if given.n_shared else ""
    return f"{given.n_active} of {given.n_experts} experts{shared}, {kind} × {given.d_expert}"


def _pictures(spec: Resolved, price: Price, page: Console) -> Columns:
    drawn = [
        _drawn(panel, page)
        for name, stack in _stacks(spec)
        for panel in panels(stack, name, price.prefix / price.length if stack is spec.stack else 1)
    ]
    return Columns(drawn, padding=(1, 4, 0, 0))


def _drawn(panel: Panel, page: Console) -> RenderableType:
    text = picture(panel.squares, page.options.ascii_only)
    parts = [Text(panel.where), Text(str(panel.rule), style="bold"), Text(text, style="cyan")]
    return Group(*parts, *([Text(panel.note, style="dim")] if panel.note else []))
