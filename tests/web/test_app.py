"""The page and the API: the same bytes as the command line, sentences for what is wrong, nothing for strangers."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as answer_of
from tests.patience import PATIENCE_S

import tonnage
from tonnage import catalog
from tonnage.web.listings import accuracy_rows

httpx = pytest.importorskip("httpx")

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FIT = {"model": MODEL, "accelerator": "H100", "context": "8k"}
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def client(page_address: str) -> Any:
    with httpx.Client(base_url=page_address, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


def test_the_same_question_gives_the_same_bytes_through_every_face(client: Any) -> None:
    printed = answer_of("fit", MODEL, "-a", "H100", "--context", "8k", "--json")
    posted = client.post("/fit", json=FIT)
    asked = client.get("/fit", params=FIT, headers={"accept": "application/json"})
    assert printed.output == posted.text == asked.text
    called = tonnage.to_dict(tonnage.fit(MODEL, accelerator="H100", context="8k"))
    assert json.dumps(json.loads(printed.output)) == json.dumps(called)
    page = client.get("/fit", params=FIT, headers=HTML).text
    key = page.split("/answer/")[1].split(".json")[0]
    assert client.get(f"/answer/{key}.json").text == printed.output


@pytest.mark.parametrize(
    "path", ["/", "/api", "/plan/serve", "/plan/lifecycle", "/fit", "/cost/rent-or-buy", "/simulate"]
)
def test_every_form_is_there_with_an_example(client: Any, path: str) -> None:
    reply = client.get(path, headers=HTML)
    assert reply.status_code == 200 and "<h1" in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "unsafe" not in reply.headers["content-security-policy"]


def test_a_wrong_field_keeps_the_form_and_says_what_to_write(client: Any) -> None:
    reply = client.get("/plan/serve", params={"model": MODEL, "rate": "4 parsecs"}, headers=HTML)
    assert reply.status_code == 400 and "4 parsecs" in reply.text and 'role="alert"' in reply.text
    reply = client.post("/plan/serve", json={"modle": MODEL})
    assert reply.status_code == 400 and "did you mean 'model'" in reply.json()["error"]


def test_of_several_fields_only_the_wrong_ones_are_said_and_each_in_words(client: Any) -> None:
    bare = client.get("/plan/serve?model=70B&rate=fast&traffic=Chat&ttft=1").text
    told = re.findall(r'<li><a href="#f-(\w+)">([^<]*)</a>', bare)
    assert [name for name, _ in told] == ["rate"] and 'value="chat" checked' in bare
    unknown = client.get("/plan/serve?model=abcdefgh&rate=fast").text
    told = re.findall(r'<li><a href="#f-(\w+)">([^<]*)</a>', unknown)
    assert [name for name, _ in told] == ["model", "rate"] and all(why for _, why in told)


def test_own_lengths_are_planned_as_set_or_asked_for(client: Any) -> None:
    page = client.get("/plan/serve", headers=HTML).text
    (own,) = re.findall(r'name="traffic" value="([^"]*)"[^>]*><b>Own</b>', page)
    asked = {"model": MODEL, "rate": "4/s", "accelerator": "H100", "quick": "true", "traffic": own}
    reply = client.get("/plan/serve", params=asked, headers=HTML)
    assert reply.status_code == 400 and "Prompt tokens is missing" in reply.text
    reply = client.get("/plan/serve", params=asked | {"prompt_tokens": "400"}, headers=HTML)
    assert reply.status_code == 400 and "Output tokens is missing" in reply.text
    reply = client.get("/plan/serve", params=asked | {"prompt_tokens": "400", "output_tokens": "60"}, headers=HTML)
    assert reply.status_code == 200 and "400 in / 60 out tokens" in reply.text
    assert re.search(r'value="own" checked><b>Own</b>', reply.text)


def test_what_a_budget_buys_leads_to_its_service(client: Any) -> None:
    asked = {"amount": "$3,000/month", "model": MODEL, "traffic": "chat", "ttft": "1 s", "accelerator": "L40S"}
    page = client.get("/plan/budget", params=asked, headers=HTML).text
    (link,) = re.findall(r'href="([^"]*)">Open the plan</a>', page)
    (month,) = re.findall(r'class="price">.*?<b>(\$[\d,]*)/month', page)
    service = client.get(f"{link.replace('&amp;', '&')}&quick=true", headers=HTML).text
    assert "Start it</a>" in service and "p95 TTFT ≤ 1 s" in service
    bought, costs = (float(text.strip("$").replace(",", "")) for text in (
        month, re.findall(r"<small>(\$[\d,]*)/month", service)[0]))  # fmt: skip
    assert costs == bought


def test_what_should_run_instead_leads_to_its_service(client: Any) -> None:
    asked = {"file": f"vllm serve {MODEL} --max-model-len 16384", "accelerator": "H100", "rate": "2/s",
             "provider": "lambda"}  # fmt: skip
    page = client.get("/adopt", params=asked, headers=HTML).text
    (link,) = re.findall(r'href="([^"]*)">Open the plan</a>', page)
    service = client.get(f"{link.replace('&amp;', '&')}&quick=true&accelerator=H100", headers=HTML)
    assert service.status_code == 200 and "Start it</a>" in service.text and "context=16384" in link


def test_what_people_write_is_text_and_nothing_else(client: Any) -> None:
    reply = client.get("/fit", params={"model": "<script>alert(1)</script>"}, headers=HTML)
    assert reply.status_code == 400 and "<script>alert" not in reply.text


def test_infeasible_is_an_answer(client: Any) -> None:
    reply = client.post(
        "/plan/serve", json={"model": "405B", "rate": "4/s", "accelerator": "T4", "max_accelerators": 1}
    )
    assert reply.status_code == 200 and reply.json()["feasible"] is False


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.example"},
        {"host": "127.0.0.1.attacker.example"},
        {"host": ""},
        {"origin": "https://attacker.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_strangers_are_refused(client: Any, headers: dict[str, str]) -> None:
    reply = client.post("/fit", json=FIT, headers=headers)
    assert reply.status_code in (400, 403) and "fits" not in reply.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * (1024 * 1024 + 1), 413),
        (b"[" * 100_000, 400),
        (b'{"model":' * 50 + b"1" + b"}" * 50, 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (json.dumps({f"x{n}": 1 for n in range(60_000)}).encode(), 400),
        (json.dumps({f"x{n}": 1 for n in range(200)}).encode(), 400),
        (b'{"model": "8B", "accelerator": "H\\u001b[2J"}', 400),
        (b'{"model": {"id": "a\\u202eb", "layers": []}}', 400),
        (b'{"x\\u001b[2J": 1}', 400),
        (b"null", 400),
        (b'{"model": {"a": 1}}', 400),
    ],
)
def test_hostile_bodies_get_a_sentence(client: Any, body: bytes, status: int) -> None:
    reply = client.post("/fit", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == status and reply.json()["error"].isprintable() and len(reply.content) < 2500


@pytest.mark.parametrize(
    "model",
    ["/etc/passwd", "./config.json", "../x", "~/x", "..\\x", "src", "tests", "upload:../../etc", "upload:0", "x.gguf"],
)
def test_no_file_of_this_machine_is_read(client: Any, model: str) -> None:
    for path, body in (
        ("/fit", {"model": model}),
        ("/plan/serve", {"model": model, "rate": "1/s"}),
        ("/plan/lifecycle", {"months": 1, "finetune": {"model": model}, "serve": {"model": model}}),
    ):
        reply = client.post(path, json=body)
        assert reply.status_code == 400 and "model" in reply.json()["error"]
    told = client.post("/predict", json={"cases": [{"kind": "serve", "model": model, "accelerator": "H100"}]})
    assert told.status_code in (200, 400) and "error" in told.text


def test_a_request_log_is_not_read(client: Any) -> None:
    body = {"model": MODEL, "accelerator": "H100", "traffic": {"trace": "/etc/passwd"}}
    assert "trace" in client.post("/simulate", json=body).json()["error"]


def test_an_uploaded_configuration_is_a_model(client: Any) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,
        "max_position_embeddings": 131072, "tie_word_embeddings": True,
    }  # fmt: skip
    told = client.post("/models", json=config)
    assert told.status_code == 200, told.text
    reply = client.post("/fit", json={"model": told.json()["model"], "accelerator": "H100"})
    assert reply.status_code == 200 and reply.json()["parameters"] == pytest.approx(1.236e9, rel=0.01)
    assert client.post("/models", json={"hello": "world"}).status_code == 400


def test_where_an_option_can_be_started_is_offered_and_what_is_missing_asked_for(client: Any) -> None:
    asked = {"model": "meta-llama/Llama-3.1-70B-Instruct", "rate": "4/s", "traffic": "chat", "accelerator": "B200",
             "quick": "true"}  # fmt: skip
    page = client.get("/plan/serve", params=asked, headers=HTML).text
    offered = client.get("/export/" + page.split('href="/export/')[1].split('"')[0].replace("&amp;", "&"), headers=HTML)
    links = [part.split('"')[0].replace("&amp;", "&") for part in offered.text.split('<a href="/export/')[1:]]
    assert links and "<form" not in offered.text.partition("<main")[2]
    for link in links:
        assert client.get(f"/export/{link}", headers=HTML).status_code == 200, link
    assert "trtllm: " in offered.text and "starts trtllm, and the option was planned for vllm" in offered.text

    def offers(params: dict[str, str]) -> tuple[str, Any]:
        key = client.get("/plan/serve", params=params, headers=HTML).text.split("/answer/")[1].split(".json")[0]
        return key, client.get(f"/export/{key}", headers={"accept": "application/json"}).json()

    key, found = offers({**asked, "precision": "nvfp4"})
    assert {"vllm", "kubernetes", "dstack"} <= {*found["ready"]} and not found["lacking"]
    for target in {*found["ready"]} - {"prometheus", "grafana", "budget", "terraform", "karpenter"}:
        written = client.get(f"/export/{key}", params={"to": target}, headers=HTML)
        assert "RedHatAI/Llama-3.1-70B-Instruct-NVFP4" in written.text, target

    # Of the base model, nobody is known to have published another format.
    key, found = offers({**asked, "model": "meta-llama/Llama-3.1-70B", "precision": "nvfp4"})
    assert "vllm" in found["lacking"] and not {"vllm", "kubernetes"} & {*found["ready"]}
    shown = client.get(f"/export/{key}", headers=HTML).text
    assert 'name="checkpoint"' in shown and "vllm needs a checkpoint already in nvfp4" in shown
    for target in found["lacking"]:
        sent = {"to": target, "checkpoint": "example/Llama-3.1-70B-NVFP4"}
        written = client.get(f"/export/{key}", params=sent, headers=HTML)
        assert written.status_code == 200 and sent["checkpoint"] in written.text
    assert client.get(f"/export/{key}", params={"to": "vllm", "checkpoint": "-x"}).status_code == 400


@pytest.mark.parametrize(
    ("path", "asked", "ready"),
    [
        ("plan/train", {"tokens": "1B"}, {"megatron", "slurm"}),
        ("plan/finetune", {"tokens": "1M"}, {"axolotl", "slurm"}),
        ("plan/batch", {"items": "1M", "prompt_tokens": "400", "output_tokens": "60"}, {"vllm-batch"}),
        ("plan/rl", {"steps": "20", "prompts_per_step": "16", "responses_per_prompt": "8", "response_tokens": "500"},
         {"verl"}),
    ],
)  # fmt: skip
def test_a_job_is_started_from_its_page(client: Any, path: str, asked: dict[str, str], ready: set[str]) -> None:
    page = client.get(f"/{path}", params={"model": MODEL, "accelerator": "H100", **asked}, headers=HTML).text
    (link,) = re.findall(r'href="(/export/[^"]*)" rel="nofollow">Start it</a>', page)
    found = client.get(link.replace("&amp;", "&"), headers={"accept": "application/json"}).json()
    assert ready <= {*found["ready"]}
    shown = html.unescape(client.get(link.replace("&amp;", "&"), headers=HTML).text)
    assert all(f"{name}: {why.partition('; ')[0]}</li>" in shown for name, why in found["refused"].items())


def test_pictures_exports_and_comparison_of_a_kept_answer(client: Any) -> None:
    pytest.importorskip("vl_convert")
    fields = {"model": MODEL, "rate": "4/s", "traffic": "chat", "accelerator": "H100"}
    page = client.get("/plan/serve", params=fields, headers=HTML).text
    key = page.split("/answer/")[1].split(".json")[0]
    for theme in ("light", "dark"):
        drawn = client.get(f"/chart/{key}/memory-{theme}.svg")
        assert drawn.headers["content-type"].startswith("image/svg") and drawn.text.startswith("<svg")
    assert client.get(f"/chart/{key}/nothing-light.svg").status_code == 404
    wide = client.get(f"/chart/{key}/frontier-2-wide-dark.svg")
    assert wide.status_code == 200 and wide.text.startswith("<svg")
    assert client.get("/chart/abc/memory-light.svg").status_code == 404
    assert "vllm serve" in client.get(f"/export/{key}", params={"to": "vllm"}, headers=HTML).text
    assert client.get(f"/export/{key}", params={"to": "nobody"}).status_code == 400
    # The question stands beside the key: the link outlives the server.
    assert f'href="/numbers/{key}?option=1&amp;of=plan%2Fserve' in page
    opened = client.get(f"/numbers/{key}", headers=HTML).text
    assert "matrix products" in opened and "h100-sxm5-80gb.vllm.grids" in opened
    told = client.get(f"/numbers/{key}", headers={"accept": "application/json"}).json()
    assert {node["name"] for node in told["numbers"]} >= {"TTFT", "TPOT"}
    assert client.get(f"/numbers/{key}", params={"option": "99"}).status_code == 400
    other = client.get("/fit", params=FIT, headers=HTML).text.split("/answer/")[1].split(".json")[0]
    both = client.get("/compare", params={"left": key, "right": other}, headers=HTML).text
    assert both.count('class="sentence') == 2


def test_a_filter_lists_every_vendor_and_says_how_many_values_it_does_not_list(client: Any) -> None:
    page = client.get("/accelerators", headers=HTML).text
    sections = dict(re.findall(r'<section aria-label="([\w ]+)"><h2>.*?</h2>\s*<ul>(.*?)</ul>', page, re.DOTALL))
    vendors = {part.vendor for part in catalog.accelerators().values()}
    assert all(f">{name}</a>" in sections["vendor"] for name in vendors) and "rarer" not in sections["vendor"]
    kinds = {part.memory_type for part in catalog.accelerators().values() if part.memory_type}
    listed = sections["memory type"].count("<a ")
    assert f"{len(kinds) - listed} rarer: by search" in sections["memory type"]


def test_an_address_without_a_page_names_the_nearest(client: Any) -> None:
    answer = client.get("/serve", headers={"accept": "text/html"})
    assert answer.status_code == 404 and "did you mean &#39;/plan/serve&#39;" in answer.text
    assert "did you mean '/fit'" in client.get("/fits").json()["error"]


def test_progress_of_a_simulation_ends(client: Any) -> None:
    fields = {
        "model": MODEL,
        "accelerator": "H100",
        "traffic.profile": "chat",
        "traffic.rate": "2/s",
        "traffic.requests": "3000",
    }
    told = client.get("/progress/simulate", params=fields).text
    assert "event: end" in told and "error" not in told
    answer = client.get("/simulate", params=fields, headers={"accept": "application/json"}).json()
    assert answer["requests"] == 3000


def test_a_setting_that_no_engine_has_is_refused(client: Any) -> None:
    case = {"kind": "serve", "model": MODEL, "accelerator": "H100", "isl": 100, "osl": 50, "traffic": {"batch": 1}}
    asked = {"cases": [{**case, "engine_options": {"max_num_seq": 1}}]}
    assert "did you mean 'max_num_seqs'" in client.post("/predict", json=asked).json()["results"][0]["error"]


def test_predict_answers_in_order_and_says_what_is_wrong(client: Any) -> None:
    good = {"kind": "serve", "model": "13B", "accelerator": "H200", "traffic": {"concurrency": 8}, "isl": 64, "osl": 64}
    results = client.post("/predict", json={"cases": [good, {"kind": "serve"}, good]}).json()["results"]
    assert results[0] == results[2] and results[0]["fits"] and "error" in results[1]
    empty = client.post("/predict", json={"cases": []})
    assert empty.status_code == 400 and "cases: a list of 1 to 200 cases is expected" in empty.text


def test_the_shipped_files_are_there() -> None:
    from importlib.resources import files

    folder = Path(str(files("tonnage.web")))
    assert {path.name for path in (folder / "static").iterdir()} >= {"page.js", "icon.svg"}
    script = (folder / "static" / "page.js").read_text()
    assert "http://" not in script and "https://" not in script


def test_a_first_answer_by_averages_then_the_simulated_one(client: Any) -> None:
    fields = {"model": MODEL, "rate": "3/s", "traffic": "chat", "ttft": "1 s", "accelerator": "L40S"}
    first = client.get("/plan/serve", params=fields, headers=HTML).text
    assert 'data-waits="/progress/plan/serve?' in first and "by averages" in first
    assert "event: end" in client.get("/progress/plan/serve", params=fields).text
    second = client.get("/plan/serve", params=fields, headers=HTML).text
    assert "data-waits" not in second
    key = second.split("/answer/")[1].split(".json")[0]
    assert client.get(f"/answer/{key}.json").text == client.post("/plan/serve", json=fields).text
    assert client.get("/progress/no/such", params=fields).status_code == 404


def test_what_ifs_say_what_moves(client: Any) -> None:
    fields = {"model": MODEL, "items": "50M", "deadline": "8 h", "prompt_tokens": "400", "output_tokens": "60"}
    page = client.get("/plan/batch", params=fields, headers=HTML).text
    key = page.split("/what-ifs/")[1].split('"')[0]
    told = client.get(f"/what-ifs/{key}", headers=HTML).text
    assert told.count('class="apply"') == 3 and "twice the work: 100M" in told and "cost +" in told
    beside = told.split('href="/compare?')[1].split('"')[0].replace("&amp;", "&")
    both = client.get(f"/compare?{beside}", headers=HTML).text
    assert "second over first" in both and both.count('class="sentence') == 2


def test_a_fleet_is_asked_as_yaml_or_as_lists(client: Any) -> None:
    text = "- {name: chat, model: 8B, rate: 2/s, traffic: chat, ttft: 1 s}\r\n"
    fields = {"workloads": text, "provider": "gcp", "quick": "true"}
    page = client.get("/plan/fleet", params=fields, headers=HTML)
    assert page.status_code == 200 and "<textarea" in page.text and page.text.count("<figure") == 2
    lists = [{"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat", "ttft": "1 s"}]
    posted = client.post("/plan/fleet", json={"workloads": lists, "provider": "gcp", "quick": True})
    key = page.text.split("/answer/")[1].split(".json")[0]
    assert client.get(f"/answer/{key}.json").text == posted.text
    for wrong in ("- [", "- {model: /etc/passwd, rate: 1/s}", "- &a {model: 8B}\n- *a", "model: 8B"):
        reply = client.get("/plan/fleet", params={"workloads": wrong}, headers=HTML)
        assert reply.status_code == 400 and 'role="alert"' in reply.text


@pytest.mark.parametrize("accept", [HTML, {"accept": "application/json"}])
def test_a_field_given_twice_is_refused(client: Any, accept: dict[str, str]) -> None:
    asked = client.get(f"/fit?model={MODEL}&accelerator=H100&accelerator=A100", headers=accept)
    assert asked.status_code == 400 and "the query gives &#39;accelerator&#39; twice" in asked.text.replace(
        "'", "&#39;"
    )
    assert client.get(f"/fit?model={MODEL}&accelerator=H100&accelerator=H100", headers=accept).status_code == 200
    posted = client.post(
        "/fit", content='{"model": "8B", "model": "70B"}', headers={"content-type": "application/json"}
    )
    assert posted.status_code == 400 and "the body gives 'model' twice" in posted.json()["error"]


def test_offers_made_to_a_user_come_as_a_list_and_never_as_a_path(client: Any) -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "100/s", "tpot": "50 ms", "accelerator": "H100",
             "quick": True}  # fmt: skip
    quote = {"accelerator": "H100", "provider": "acme", "price": "$0.60/h", "term": "12 months", "minimum": 16}
    found = client.post("/plan/serve", json={**asked, "quotes": [quote]})
    assert found.status_code == 200 and found.json()["options"][0]["bill"]["contract"]["minimum"] == 16
    for bad in ("/etc/hostname", "quotes.yaml", {"a": 1}, 3, [3]):
        refused = client.post("/plan/serve", json={**asked, "quotes": bad})
        assert refused.status_code in (400, 422) and "quotes" in refused.text, refused.text


def test_the_accuracy_page_has_words_for_what_it_shows(client: Any) -> None:
    page = html.unescape(client.get("/accuracy", headers=HTML).text)
    told = page.split("How to read it")[0]
    assert "Time to first token (TTFT)" in told and "mean of medians" not in told
    codes = [row["worst group"].split()[0] for row in accuracy_rows() if row["left out"] == "its source"]
    assert codes and not [code for code in codes if f">{code} " in told or f"({code})" in told]
