"""The serving loop once more, in plain Python: one step after the other, one request after the other.

Written for reading, from the engines' own schedulers, without the shortcuts of the compiled loop; tests
hold the two against each other token for token. It keeps the time of every token.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import takewhile
from typing import Any, NamedTuple

from tonnage.simulation.loop_state import UNIT, paced_lengths
from tonnage.simulation.simulated import Limits, Requests, StepArrays

__all__ = ["Told", "play"]

RETRACT_STEPS = 20
CLIP_TOKENS = 4096

Row = dict[str, Any]
"""One request while it runs: id, prompt, output, computed, said, target, blocks, times."""


class Told(NamedTuple):
    """What the plain loop tells: the times of every request's tokens, and what happened to it."""

    token_s: list[list[float]]
    started_s: list[float]
    preempted: list[int]
    replica: list[int]
    steps: int
    free_blocks: int
    """At the end: as many as there are, or blocks have leaked."""
    free_host_blocks: int


def play(
    table: StepArrays,
    limits: Limits,
    *,
    requests: Requests,
    clients: int | None = None,
    replicas: int = 1,
    rule: str = "round-robin",
    delivery_s: float = 0.0,
) -> Told:
    """Plays requests as they are sent on replicas behind a router, or by `clients` of one replica in a closed loop."""
    n = len(requests.prompt)
    lengths = paced_lengths(requests, limits)
    rows = [_row(requests, r, int(lengths[r])) for r in range(n)]
    fleet = [_replica(limits) for _ in range(replicas)]
    first = n if clients is None else min(clients, n)
    sent = [float(x) for x in requests.sent_s]
    pending = [(sent[r] + delivery_s, r, r) for r in range(first)]  # when, client, request
    following, turn = first, 0
    while sum(w["done"] for w in fleet) < n:
        due = min(pending)[0] if pending else math.inf
        ended = [row for w in fleet for row in _until(w, table, limits, due=due, one=clients is not None)]
        for row in ended if clients is not None else []:
            if following < n:
                at = row["tokens"][-1] + float(requests.think_s[row["id"]])
                pending.append((at + delivery_s, row["client"], following))
                following += 1
        if pending and not (clients is not None and ended):
            entry = min(pending)
            pending.remove(entry)
            row = rows[entry[2]]
            k = _routed(fleet, limits, row=row, rule=rule, turn=turn)
            turn = (k + 1) % replicas
            row["client"], row["entered"], row["replica"] = entry[1], due, k
            if not fleet[k]["running"] and not fleet[k]["waiting"]:
                fleet[k]["now"] = max(fleet[k]["now"], due)
            fleet[k]["waiting"].append(row)
    return Told(
        token_s=[row["tokens"] for row in rows],
        started_s=[row["started"] for row in rows],
        preempted=[row["preempted"] for row in rows],
        replica=[row["replica"] for row in rows],
        steps=sum(w["steps"] for w in fleet),
        free_blocks=sum(w["free"] for w in fleet),
        free_host_blocks=sum(w["host_free"] for w in fleet),
    )


def _replica(limits: Limits) -> Row:
    return {
        "now": 0.0,
        "began": 0.0,
        "free": limits.num_blocks,
        "running": [],
        "waiting": [],
        "steps": 0,
        "ratio": limits.ratio,
        "pace": sum(limits.acceptance**k for k in range(limits.speculative + 1)),
        "moved": 0,
        "decoded": 0,
        "done": 0,
        "queue": OrderedDict((b, None) for b in range(limits.num_blocks)),
        "where": {},
        "users": {},
        "taking": 0,
        "ghosts": [],
        "host": OrderedDict(),
        "host_free": limits.host_blocks,
        "recalled": 0,
        "stored": 0,
    }


def _until(w: Row, table: StepArrays, limits: Limits, *, due: float, one: bool) -> list[Row]:
    """Takes every step that begins before `due`; with `one`, no further than the first end of a request."""
    ended: list[Row] = []
    while w["now"] < due and (w["running"] or w["waiting"]) and not (one and ended):
        if limits.gather and not w["running"] and not _batch_is_due(w, limits):
            w["now"] = min(due, w["waiting"][0]["entered"] + limits.gather_s)
            continue
        ended += _step(w, table, limits)
    return ended


def _routed(fleet: list[Row], limits: Limits, *, row: Row, rule: str, turn: int) -> int:
    """Whose turn it is, who has least to do, or who holds most of the prompt unless that one has far more to do."""
    order = [(turn + k) % len(fleet) for k in range(len(fleet))]
    load = [len(w["running"]) + len(w["waiting"]) for w in fleet]
    if rule == "round-robin":
        return order[0]
    least = min(order, key=lambda k: load[k])
    if rule == "least-loaded" or row["ids"] is None:
        return least
    hits = [len(list(takewhile(w["where"].__contains__, row["ids"]))) for w in fleet]
    best = max(order, key=lambda k: hits[k])
    level = max(load) - min(load) <= 64 or max(load) <= min(load) * 1.5
    return best if level and hits[best] * limits.block_tokens > 0.3 * row["prompt"] else least


def _batch_is_due(w: Row, limits: Limits) -> bool:
    """Whether a batch that starts together is full, or its first member has waited long enough."""
    return (
        w["taking"] > 0
        or len(w["waiting"]) >= limits.gather
        or bool(w["now"] >= w["waiting"][0]["entered"] + limits.gather_s)
    )


def _row(requests: Requests, r: int, output: int) -> Row:
    ids = [int(x) for x in requests.blocks[requests.offsets[r] : requests.offsets[r + 1]]] if requests.num_ids else []
    prompt = int(requests.prompt[r])
    return {
        "id": r,
        "prompt": prompt,
        "output": output,
        "cached": int(requests.cached[r]),
        "priority": int(requests.priority[r]),
        "ids": ids if requests.num_ids else None,
        "computed": 0,
        "target": prompt,
        "held": 0,
        "mine": [],
        "tokens": [],
        "started": math.nan,
        "preempted": 0,
        "client": r,
        "given": 0,
        "swapped": 0,
        "replica": 0,
    }


def _step(w: Row, table: StepArrays, limits: Limits) -> list[Row]:
    """One step; the requests that end with it."""
    for row in w["running"]:
        row["given"] = 0
    if limits.mixed:
        retracted = _retract(w, limits)
        left, preempted = _schedule(w, limits, [True, False])
        if not (retracted or preempted):
            _admit(w, limits, left)
        return _execute(w, table, limits, decoded=True)
    left, _ = _schedule(w, limits, [False])
    _admit(w, limits, left)
    if any(row["given"] for row in w["running"]):
        return _execute(w, table, limits, decoded=False)
    _retract(w, limits)
    _schedule(w, limits, [True])
    return _execute(w, table, limits, decoded=True)


def _decoding(row: Row) -> bool:
    return bool(row["computed"] >= row["target"])


def _known(row: Row) -> int:
    return int(row["prompt"] + len(row["tokens"]))


def _schedule(w: Row, limits: Limits, kinds: list[bool]) -> tuple[int, bool]:
    """Gives tokens to running requests in order, decoding or not as `kinds` says; budget left, anyone preempted."""
    left, preempted, i = limits.budget, False, 0
    while i < len(w["running"]) and left > 0:
        row = w["running"][i]
        if _decoding(row) not in kinds:
            i += 1
            continue
        need = 1 + limits.speculative if _decoding(row) else row["target"] - row["computed"]
        need = min(need, limits.threshold or need, left)
        gone = False
        while not _allocate(w, limits, row, row["computed"] + (_growth(w) if _decoding(row) else need)):
            victim = _victim(w, limits)
            k = w["running"].index(victim)
            left += victim["given"] if k < i else 0
            i -= 1 if k < i else 0
            _preempt(w, limits, victim)
            preempted = True
            if victim is row:
                gone = True
                break
        if gone:
            break
        row["given"] = need
        left -= need
        i += 1
    return left, preempted


def _victim(w: Row, limits: Limits) -> Row:
    running: list[Row] = w["running"]
    if limits.victim == 0:
        return running[-1]
    if limits.victim == 1:
        return max(running, key=lambda row: (row["priority"], row["id"]))
    decoding = [row for row in running if _decoding(row)]
    return min(decoding, key=lambda row: (len(row["tokens"]), -row["prompt"])) if decoding else running[-1]


def _retract(w: Row, limits: Limits) -> bool:
    """SGLang: when the next decode step has no room, those who have said least go until twenty steps have."""
    if limits.victim != 2 or limits.reserve_output:
        return False
    size = limits.block_tokens
    decoding = [row for row in w["running"] if _decoding(row)]
    lacking = [math.ceil((row["computed"] + _growth(w)) / size) - math.ceil(row["computed"] / size) for row in decoding]
    if sum(lacking) <= w["free"]:
        return False
    several = len(decoding)
    while len(decoding) > 1 and w["free"] * size < RETRACT_STEPS * len(decoding):
        _preempt(w, limits, _victim(w, limits))
        decoding = [row for row in w["running"] if _decoding(row)]
    said = sum(len(row["tokens"]) for row in decoding)
    whole = sum(row["output"] for row in w["running"])
    w["ratio"] = min(1.0, (said + RETRACT_STEPS * len(w["running"])) / (whole + 1.0))
    return len(decoding) < several


def _allocate(w: Row, limits: Limits, row: Row, tokens: int) -> bool:
    more = math.ceil(tokens / limits.block_tokens) - row["held"]
    if (limits.reserve_output and row["ids"] is None) or more <= 0:
        return True
    if more > w["free"]:
        return False
    w["free"] -= more
    row["held"] += more
    if row["ids"] is not None:
        for _ in range(more):
            block, name = w["queue"].popitem(last=False)
            if name is not None:
                del w["where"][name]
            w["users"][block] = 1
            row["mine"].append([block, None])
    return True


def _release(w: Row, row: Row) -> None:
    if row["ids"] is None:
        w["free"] += row["held"]
    else:
        for block, _ in reversed(row["mine"]):
            w["users"][block] -= 1
            if w["users"][block] == 0:
                name = next((key for key, value in w["where"].items() if value == block), None)
                w["queue"][block] = name
                w["free"] += 1
    row["held"], row["mine"] = 0, []


def _host_put(w: Row, limits: Limits, name: int) -> None:
    """Keeps a block in host memory, where what was used longest ago makes room."""
    if name in w["host"]:
        w["host"].move_to_end(name)
        return
    if len(w["host"]) == limits.host_blocks:
        w["host"].popitem(last=False)
    w["host"][name] = None
    w["stored"] += limits.block_tokens


def _preempt(w: Row, limits: Limits, row: Row) -> None:
    blocks = math.ceil(row["computed"] / limits.block_tokens)
    if limits.host_blocks and row["ids"] is None and blocks <= w["host_free"]:
        w["host_free"] -= blocks
        w["stored"] += row["computed"]
        row["swapped"] = row["computed"]
    w["running"].remove(row)
    _release(w, row)
    row["computed"], row["given"] = 0, 0
    row["target"] = _known(row)
    row["preempted"] += 1
    w["waiting"].insert(len(w["waiting"]) if limits.victim == 2 else 0, row)


def _admit(w: Row, limits: Limits, left: int) -> None:
    """Takes waiting requests in, until one does not fit: nobody overtakes the head."""
    if limits.gather and not w["taking"] and not w["running"] and w["waiting"] and _batch_is_due(w, limits):
        w["taking"], w["ghosts"] = min(len(w["waiting"]), limits.gather), []
    busy = bool(w["running"])
    while w["waiting"] and left > 0 and len(w["running"]) < limits.max_num_seqs:
        if limits.gather and not w["taking"]:
            break
        row = _next(w, limits)
        if limits.ahead and busy and row["entered"] > w["began"]:
            break  # the step was prepared before it came
        hits, recalled, found = _cached(w, limits, row)
        need = min(_known(row) - found, limits.threshold or _known(row))
        if need > left and not limits.chunked:
            break  # the next step has a whole budget: a batch that is being filled stays open
        need = min(need, left)
        if not _fits(w, limits, row, found + need, hits):
            w["taking"] = 0
            break
        w["taking"] -= 1 if limits.gather else 0
        _join(w, limits, row, hits)
        row["target"], row["computed"], row["given"] = _known(row), found, need
        _fill(w, limits, row, len(hits), len(recalled))
        left -= need


def _next(w: Row, limits: Limits) -> Row:
    """The waiting request that is admitted next."""
    waiting: list[Row] = w["waiting"]
    return min(waiting, key=lambda other: (other["priority"], other["id"])) if limits.ranked else waiting[0]


def _cached(w: Row, limits: Limits, row: Row) -> tuple[list[int], list[int], int]:
    """Blocks of a request on the accelerator, names of those in host memory, tokens that need not be computed."""
    target = _known(row)
    if row["ids"] is not None:
        names = row["ids"][: (target - 1) // limits.block_tokens]
        hits = [w["where"][name] for name in takewhile(w["where"].__contains__, names)]
        recalled = list(takewhile(w["host"].__contains__, names[len(hits) :]))
        return hits, recalled, (len(hits) + len(recalled)) * limits.block_tokens
    if row["swapped"]:
        return [], [], row["swapped"]
    usable = row["preempted"] == 0 or limits.cached_again
    return [], [], min(row["cached"], target - 1) if usable else 0


def _fits(w: Row, limits: Limits, row: Row, tokens: int, hits: list[int]) -> bool:
    """Whether the blocks are free that a request must find, and the room that others will want is left (SGLang)."""
    size = limits.block_tokens
    if limits.reserve_output:
        tokens = row["prompt"] + row["output"]
    elif limits.whole_prompt or not limits.mixed:
        tokens = _known(row)
    unused = sum(w["users"].get(block, 0) == 0 for block in hits)
    if math.ceil(tokens / size) - len(hits) > w["free"] - unused - limits.watermark:
        return False
    if limits.ratio == 0 or not w["running"]:
        return True
    remaining = sum(other["output"] - len(other["tokens"]) for other in w["running"] if _decoding(other))
    clipped = min(row["output"] - len(row["tokens"]), CLIP_TOKENS)
    return bool(_known(row) + clipped + w["ratio"] * remaining <= w["free"] * size)


def _join(w: Row, limits: Limits, row: Row, hits: list[int]) -> None:
    """From the waiting to the running, with the blocks that were found."""
    w["waiting"].remove(row)
    w["running"].append(row)
    if math.isnan(row["started"]):
        row["started"] = w["now"]
    for block, name in zip(hits, row["ids"] or [], strict=False):
        if w["users"].get(block, 0) == 0:
            del w["queue"][block]
            w["free"] -= 1
        w["users"][block] = w["users"].get(block, 0) + 1
        row["mine"].append([block, name])
    row["held"] = len(hits)


def _fill(w: Row, limits: Limits, row: Row, hits: int, recalled: int) -> None:
    """The blocks that an admitted request fills in this step, or will ever need, and what host memory returns."""
    whole, size = row["prompt"] + row["output"], limits.block_tokens
    if limits.reserve_output and row["ids"] is None:
        row["held"] = math.ceil(whole / size)
        w["free"] -= row["held"]
    assert _allocate(w, limits, row, whole if limits.reserve_output else row["computed"] + row["given"])
    for place in range(hits, hits + recalled):
        _note(w, limits, row, place)
    w["recalled"] += recalled * size + row["swapped"]
    w["host_free"] += math.ceil(row["swapped"] / size)
    row["swapped"] = 0


def _execute(w: Row, table: StepArrays, limits: Limits, *, decoded: bool) -> list[Row]:
    """Lets the step pass and books its tokens; the requests that end."""
    given = [row for row in w["running"] if row["given"]]
    decodes = [row for row in given if _decoding(row)] if decoded else []
    prompts = [row for row in given if not _decoding(row)]
    if not given:
        return []
    ghosts = w["ghosts"] if decoded else []
    host = table.host_s + table.host_sequence_s * (len(decodes) + len(ghosts)) + table.host_prompt_s * len(prompts)
    moved_s = limits.recall_token_s * max(w["recalled"], w["stored"])
    busy = _busy_s(table, decodes, prompts=prompts, ghosts=ghosts)
    w["began"] = w["now"]
    w["now"] += max(busy, table.hidden_s, moved_s) + host
    w["recalled"], w["stored"] = 0, 0
    w["steps"] += 1
    if decoded:
        w["ratio"] = max(limits.ratio_least, w["ratio"] - limits.ratio_decay)
    grown = _growth(w)
    for row in decodes:
        _decode(w, limits, row, grown)
    w["moved"] += grown if decoded else 0
    w["decoded"] += 1 if decoded else 0
    for row in prompts:
        _prefill(w, limits, row)
    ended = [row for row in given if len(row["tokens"]) == row["output"]]
    w["ghosts"] = [context + grown for context in w["ghosts"]] if decoded else w["ghosts"]
    for row in ended:
        if limits.gather:
            w["ghosts"].append(row["computed"] + 1)
        w["running"].remove(row)
        _release(w, row)
        w["done"] += 1
    return ended


def _busy_s(table: StepArrays, decodes: list[Row], *, prompts: list[Row], ghosts: list[int]) -> float:
    """The accelerator's time for a step: decodes alone, or prompts with the decodes beside them. [s]"""
    context = sum(row["computed"] + 1 for row in decodes) + sum(ghosts)
    batch = len(decodes) + len(ghosts)
    if not prompts:
        return float(table.decode_s[batch] + table.context_s[batch] * context)
    drafted = sum(row["given"] for row in decodes)
    if drafted == len(decodes) and all(row["given"] == 1 for row in prompts):
        whole = batch + len(prompts)
        context += sum(row["computed"] + 1 for row in prompts)
        return float(table.decode_s[whole] + table.context_s[whole] * context)
    rows = drafted + sum(row["given"] for row in prompts)
    whole = sum(row["computed"] + row["given"] == row["target"] for row in prompts)
    attended = 0.0
    for row in prompts:
        q, c = row["given"], row["computed"]
        attended += q * (table.chunk_token_s + table.chunk_square_s * (c + q / 2.0))
    full = min(table.ranks, max(table.ranks / len(prompts), 1.0 + table.uneven / math.sqrt(len(prompts))))
    fullest = min(rows + int((rows - drafted) * (full - 1.0)) + len(ghosts), len(table.mixed_s) - 1)
    busy = float(table.mixed_s[fullest]) + float(table.head_s[drafted + whole]) + table.chunk_s + attended * full
    if batch:
        busy += float(table.attend_s[batch]) + float(table.context_s[batch]) * (context * table.mixed_attention)
    return float(busy)


def _growth(w: Row) -> int:
    """Tokens of the next decode step: together, steps have moved by the whole part of steps times pace."""
    return int((w["decoded"] + 1) * round(w["pace"] * UNIT) // UNIT) - int(w["moved"])


def _decode(w: Row, limits: Limits, row: Row, grown: int) -> None:
    """As many tokens more as a step yields; what the last step says beyond the answer is cut off."""
    for full in range(row["computed"], row["computed"] + grown):
        if row["ids"] is not None and full % limits.block_tokens == 0:
            _note(w, limits, row, full // limits.block_tokens - 1)
    row["computed"] += grown
    row["target"] += grown
    row["tokens"] += [w["now"]] * min(grown, row["output"] - len(row["tokens"]))


def _prefill(w: Row, limits: Limits, row: Row) -> None:
    """A piece of a prompt; the last one says a token."""
    before = row["computed"]
    row["computed"] += row["given"]
    if row["ids"] is not None:
        for place in range(before // limits.block_tokens, row["computed"] // limits.block_tokens):
            _note(w, limits, row, place)
    if _decoding(row):
        row["tokens"].append(w["now"])


def _note(w: Row, limits: Limits, row: Row, place: int) -> None:
    """A block is full: it can be found from now on, unless another holds the same; host memory keeps it, too."""
    if place >= len(row["ids"]):
        return
    if limits.host_blocks:
        _host_put(w, limits, row["ids"][place])
    if row["mine"][place][1] is not None:
        return
    name = row["ids"][place]
    if name not in w["where"]:
        w["where"][name] = row["mine"][place][0]
        row["mine"][place][1] = name
