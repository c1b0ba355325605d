"""
The source grows only with a line here that says what the growth bought.

Counted are tokens, which reformatting cannot move: comments, docstrings, blank lines, commas, colons, brackets and
generated files are left out. Python 3.11's tokens, for later ones split f-strings.
"""

import ast
import io
import sys
import tokenize

import pytest
from tests.style.source import modules, nodes_of

SPINE = ("core", "domain", "planning", "questions", "report")
MOST = {
    # 2026-11-28: 587,389 and 273,301 before one setup, driver, page and table of limits.
    # 200 of them: misspelt software of infer and rl is refused, explain --json keeps to its depth.
    # 1,800 of them: one folder a question. Readers, requests and pictures of a kind stand in files of their own with
    # their imports, and a kind of plan is one folder and one name instead of twelve places.
    # 40 of them: a plan keeps its replicas while its constraints are dropped in turn (a fifth to a half of the work),
    # and what costs more than the budget is not looked at.
    # 40 of the spine: a headline has its details and price as fields, which the page looked for in our own sentence.
    # 518,900 and 245,940 before modules that one reader reads together stood in one file.
    # 40 of both: what would change a batch plan is counted from the option that leads it, which was another.
    # 890 of both: predictions name what a case leaves open, with the numbers under the other value; speech recordings.
    # 40 of both: names in plans and cases hold no ends of lines, an unknown software in a plan is a sentence; one
    # client reads every address, and its time holds in proxies and TLS handshakes too.
    # 290 of them: configs, logs and units that were misread in silence are refused or named.
    # 130 of both: what reading a prompt and steps prepared before it add to a first token, in place of three constants.
    # 120 of them, 60 of the spine: verify tells bytes from values; the cookie of a token carries the port; requests in
    # YAML hold fewer values than lists of cases.
    # 820, and 510 of the spine: what trainers keep in memory by framework and release, as settings. Peaks of LitGPT 12
    # to 4 % off, of 32-bit sums under DeepSpeed 23 to 3, of torchtitan 24 to 9; eager loops need no factor.
    # 1,480 of them, 40 of the spine: llama.cpp's memory as it allocates it (cells, states, its graph's buffer), 1 % off
    # its log, and an engine's own names of layouts and formats, refused with the field that says them.
    # 450 of them, 70 of the spine: intervals are a model with a bias and heavy tails, and say where they are no 90 %.
    # 240 of them, 190 of the spine: RL plans compute every layer again where memory is too doubtful for the confidence,
    # and bare sizes are networks of even widths and depths (their prices jumped by a fifth within 1 % of the size).
    # 20 of them, 10 of the spine: two writers of prices wait for each other; usage errors and ids of refused cases show
    # no hidden character; whole numbers beyond floats are refused.
    # 1,140 of them, 550 of the spine: published checkpoints are facts: 82 that options load without being asked which,
    # on screen, in JSON and in every file; pipelines whose layers do not divide start; one release for plan and files.
    # 60 of them: programs that begin one store of measurements at once all write (one in fifteen was refused).
    # 30 of them: the page and the MCP server say at once that a file of own facts cannot be read.
    # 1,130 of them, 1,150 of the spine: what is cheapest as sure as asked and with an even chance stand side by side
    # and get no dearer with less asked: all software of a run, even fleets, settings by what replicas carry.
    # 30 of both: what less cache costs is as sure as the plan; an even chance is not called unsure once more.
    # 50 of both: where a capacity's precision decides on a replica, fewer are taken if their chance is as asked (24.7/s
    # for $2,920 a month were not seen under a budget of $3,000).
    # 160 of them: prices come through the one client, in bounded time and size, and say why they do not.
    # 330 of them, 30 of the spine: searches of one run share what a rank's layers take and hold (a plan to train
    # Qwen3-30B-A3B took 28 CPU s, and 9 with dear places left out sooner).
    # 100 of them: an answer from a request log says how it was read, and sums of money have few digits.
    # 1,380 of them: workers apart start from vLLM's script, on Kubernetes, SkyPilot and Slurm;
    # all files of an option are one archive on every face; parts that no cloud of SkyPilot lists run on own clusters;
    # 31 more public files are adopted without a lost flag (six readings were wrong); plans name their engine's release.
    # 1,300 of them, 900 of the spine: one chosen option drives the page (card, meters, charts, reasons, exports, what
    # to measure first, address); plain numbers in their field's usual unit, names that mean one field to everybody,
    # lists as rows, an example answer beside each form; estimates are marked until a simulation has confirmed them.
    # 780 of them: sliders whose steps are computed in the background, what-ifs as exact as the answer and with money.
    # 1,290 of them, 550 of the spine: `local` and `plan own` are one answer over unlike cards, processors are taken as
    # they are found (19 tokens/s were 2.5), memory as it is sold; 0 of 2,000 misspelt names answered as another.
    # 2,620 of them, 180 of the spine: what else goes on beside a measurement, another model behind an address, answers
    # that slow down, time that is kept: runs that would lie are refused or marked, of servers, training and devices.
    # 3,390 of them, 340 of the spine: `measure accept` tries what was rented against good ones, with what it is worth.
    # 811 of them, 190 of the spine: two measurements compared, a calibration taken back, calibrations in the history.
    # 90 of them: wide pictures of leading charts, whose library is fetched once somebody points at one.
    # 105 of them, 170 of the spine: the most that offers join for training, a deadline it keeps; families at home.
    # 2,802, and 740 of the spine: one steady state for rates, clients and full replicas, whose requests wait for slots
    # and see each other as in the simulator (three formulas went); clients need not start together. Of random loads
    # four in five agree with their simulation within a tenth, in TTFT and TPOT.
    # 120: pieces of a long prompt are played together where clients start together: 345 to 0.8 CPU s at the most.
    # 310 of them, 200 of the spine: llama.cpp's server is planned with as many slots as memory holds, and its own four
    # share a cache: at 0.2 requests/s 23 accelerators were one slot each where one is enough.
    # 140 of both: searches of a budget keep what no rate moves: 38 to 12 CPU s (the page stopped them at 60 s).
    # 670 of both: pictures of what a machine runs and of what runs today among what would do the same.
    # 200: slots that are empty when a benchmark ends. SGLang's cookbook, left out, 36 to 27 % off in output rates.
    # 120: `advise` says which objectives are seen to be missed while its prediction keeps them.
    # 495, 590 of the spine: formats of a named model by quality and speed, commands that set what was predicted, layers
    # of several cards by bytes; what tools alone asked (three functions of plans and fits, one of physics) is theirs.
    # 60, 10 of the spine: slots that share a cache count its cells and masks once (19 logs); a number that
    # no float holds is refused in every field; llama.cpp's files and plans name one build.
    # 100, 90 of the spine: an autoscaled service is billed for what runs on average, no longer for its peak.
    # 80, 70 of the spine: `advise` says where the metrics page shows a cache of other bits than the file starts.
    # 180 of both: over unlike cards the experts of a mixture go to the host before whole layers do.
    # 100: processors multiply in vector units (decode 24 to 5 % off); the rate of clients that queue is that of slots.
    # 30: a long text of a case is refused before it is read; an engine's upgrade is told with its interval.
    # 90, 40 of the spine: on a phone rows of many columns are cards, and leading charts as wide as it is.
    # 940 of both: pictures of what a budget buys, and of what each change of a service costs against its latency.
    # 240, 140 of the spine: the command that an answer names asks its own question, objectives and filters included,
    # and the page leads from a budget, or from what should run instead, to the service that it names.
    # 140, 100 of the spine: output behind the whole context, which 32,000 tokens cut by two fifths; DDR4-3200 read.
    # 175, 105 of the spine: a name without an owner starts the tuning it names, unless it is the user's; adopt names
    # drafts and releases that a proposal needs; $3,000/month is three thousand.
    # 925, 985 of the spine: a budget buys what the simulated plan of its rate costs; every state of a service has its
    # chance, and is simulated like today's; adopt tells an upgrade; a plan says whether confidence or headroom asks for
    # one replica more; latencies say their statistic; what exceeds a budget is not simulated.
    # 1,600 of them, 1,050 of the spine: pools and old prices weigh; formats without a checkpoint rank behind those that
    # load; hand-offs accept the machine first; SkyPilot is offered where it knows the cloud; charts mark what they cut.
    # 105 of them, 75 of the spine: licence, month and size of a published checkpoint where one is chosen.
    # 196 of them: with drafts all decodes move at one pace, so that runs of steps jump (R1: a tenth of the simulator's
    # CPU), and steps of decodes alone cost what they do, not what steps that carry prompts cost.
    # 336 of them, 210 of the spine: a search opens rows once, whatever drafts and hits of a cache it tries, and deploys
    # a configuration once (8B with rag: two thirds of the CPU); sessions are drawn evenly over their work.
    # 510 of them: measure quick there and back, its undisturbed rounds, drifts by rounds of clients (llama.cpp's three
    # runs agree within 5 %, vLLM's do not); prompts of llama.cpp since August 2025 by their tiles (-32 to -6 %).
    # 120 of them, 70 of the spine: a step of RL is drawn as a timeline, the load of users is moved in users (each step
    # of that slider was refused), options as sure as asked lead whether somebody made their checkpoint or not.
    # 90: workers that a platform starts are offered the engine's own files alone; Megatron's sharding and verl one step
    # off policy start.
    # 48, 56 of the spine: at home models are ranked by score less what the format loses (on 12 GB a dense model in 3
    # bits led).
    # 83, 25 of the spine: the filter that is set is listed, ids are names, unknown cells are empty, names in charts
    # have an edge.
    # 177, 179 of the spine: workers apart with data-parallel attention and with the margin of simulation, chances
    # computed when they are read, packed examples apart, the chance of the whole side of a measurement.
    # 187: SkyPilot and dstack run on machines that they do not rent (SkyPilot: 86 of 90 first options, 12 before).
    # 2,068 of them, 750 of the spine: each accelerator has a page (prices over time, offers, published results beside
    # predictions, also as pictures of accuracy); names in charts have room at every width; a fleet tells all it runs.
    # Also of today: clients of a number in flight, machines of one joined where a network is stated, states under FSDP.
    # 428, 321 of the spine: labels true by themselves, counts that add up, an impossible deadline or a default batch
    # told as what it is, the least budget that has an answer, mistakes told with their fix.
    # 831, 300 of the spine: the load test of a plan stands in its files, and a measurement says whether limits were
    # met; no fleet is sized from a run that is not to be used; axolotl starts on several machines.
    # 6: a batch costs the sum of its parts.
    # 2,373, 1,617 of the spine: models at home stand by a score of their task, those without one above the model that
    # they beat (owner's model among the first three: 7 to 22 of 58 rigs, 32 with code); files that start it (--files);
    # machines side by side (--beside); formats, names and sizes at home as asked or refused.
    # 792, 541 of the spine: pages looked at by somebody else. A bare size starts under Megatron-LM, jobs start from
    # their pages, first screens say why a cheaper option does not lead and that none has the confidence asked for, one
    # figure for one thing (months, costs of jobs, chances, scores of formats), facts and errors without column names;
    # what to measure first has two ends where the first option leads again.
    # 209: what leads where more confidence is asked for is found where less is; replicas have rows beside units;
    # software that trains no QLoRA is refused; a fleet is measured by what a load costs alone.
    # 153, 56 of the spine: budgets and fit rank models by the task, as owners' answers do; prompts behind mapped
    # weights (rigs 30 to 20 %) and commands that pin them; quick refuses ranks and loads before it asks.
    # 1,162, 516 of the spine: a number in flight is decided by clients that wait ($1,036 an hour became $532), and what
    # other confidences cost is simulated before it is said; rate and hits meet by a secant, capacities by ITP.
    # 1,730, 1,150 of the spine: percent are written one way ("53 %"; 240 places wrote "53%"), layouts and formats in
    # people's capitals; jobs on owned cards are led by time; one rule for how sure a training budget is; objectives
    # that exclude each other are answered with the least that work, to apply; prices that others say are marked in
    # charts; words of quantities ("8 hrs", "50 million") are read, and errors of a page name fields by their labels.
    # 1,160, 518 of the spine: what should run instead has the card and meters of its plan, its first answer costs a
    # third (6.2 to 2.1 CPU s); fleets are rows with every field; names stand above their bars at any width; a plain
    # deadline is in its job's unit, countries and counts are read by name; the page keeps what is moved, and images
    # go to assistants.
    # 1,680, 1,615 of the spine: every latency has a scale of its own to its simulation, hits are those of each rate
    # that is played, in fleets' checks too; firm terms have a yardstick of their own; batches look at sizes, caches in
    # FP8 and the cheapest count, nodes without a fast link at pipelines; a kernel never takes less for more rows.
    "all": 550_340,
    "spine": 263_370,
}
LEFT_OUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def tokens(module: str, text: str) -> int:
    if module.endswith("typed.py") or ("generated" in text[:300].lower() and "do not edit" in text[:400].lower()):
        return 0
    bodies = (getattr(node, "body", None) for node in nodes_of(text))
    documented = {
        line.lineno
        for body in bodies
        if isinstance(body, list)
        for line in body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
    }
    return sum(
        token.type not in LEFT_OUT
        and token.string not in ",()[]{}:"
        and not (token.type == tokenize.STRING and token.start[0] in documented)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tokens are those of Python 3.11")
def test_the_source_is_no_larger_than_it_was() -> None:
    found = {module: tokens(module, text) for module, text in modules()}
    spine = sum(count for module, count in found.items() if module.partition("/")[0] in SPINE)
    assert sum(found.values()) <= MOST["all"] and spine <= MOST["spine"], "say what the growth bought, or remove some"
    assert sum(found.values()) > 0.98 * MOST["all"], "smaller: lower the ratchet"
