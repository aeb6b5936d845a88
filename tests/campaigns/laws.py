"""What is true of every run of epsim, and of some pairs of runs; for scenarios.py."""
import collections

# Faster hardware may change which requests share a step, and by that slow some of them down (an anomaly known from
# multiprocessor scheduling, R. L. Graham, 1969): mean times may be worse by this much.
ANOMALY = 0.10


class Failure(Exception):
    """`kind` stays the same while a scenario is minimised; `text` has the figures."""

    def __init__(self, kind, text=""):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Refused(Exception):
    pass


def close(a, b, share=1e-6, least=1e-9):
    return abs(a - b) <= share * max(abs(a), abs(b)) + least


def require(holds, kind, text=""):
    if not holds:
        raise Failure(kind, text)


def check_figures(r):
    """Laws that hold within one run."""
    s = r["summary"]
    q = s["requests"]
    rows = r["requests"]
    ended = q["completed_requests"] + q["failed_requests"] + q["running_requests"] + q["waiting_requests"]
    require(q["offered_requests"] + q["warmup_requests"] in (ended, ended + q["warmup_requests"]), "requests are lost", q)
    require(q["running_requests"] + q["waiting_requests"] == 0 or s["overloaded"] or s["interrupted"],
            "requests never end", q)
    done = [x for x in rows if x["state"] == "completed"]
    if q["warmup_requests"] == 0:
        require(len(done) == q["completed_requests"], "completed requests differ", (len(done), q))
        for name in ("input_tokens", "output_tokens"):
            require(sum(int(x[name]) for x in done) == q["completed_" + name], "tokens are lost", (name, q))
    for x in done:
        at = [float(x[k]) for k in ("arrival_s", "admitted_s", "first_token_s", "finished_s")]
        require(at == sorted(at), "a request's times are out of order", x)
        require(0 <= int(x["cached_tokens"]) < max(1, int(x["input_tokens"])) * (1 + int(x["retractions"]) + int(x["retries"])),
                "more cached than asked", x)
        if int(x["output_tokens"]) == 1:
            require(close(at[2], at[3]), "one token takes two times", x)
    for name, value in s["kv"].items():
        if name.endswith("_share") and value is not None:
            require(-1e-9 <= value <= 1 + 1e-9, "a KV share is not a share", (name, value))
    require(s["kv"]["prefix_hit_tokens"] <= s["kv"]["prefix_lookup_tokens"], "more hits than lookups", s["kv"])
    step, parts = s["step"], s["time_by_part"]
    if step["step_time_s"]:
        total = sum(v for k, v in parts.items() if k.endswith("_s"))
        require(close(total, step["step_time_s"], 1e-6), "parts do not add up to the step time",
                (total, step["step_time_s"]))
        require(all(v >= -1e-9 for k, v in parts.items()), "a part of a step has negative time", parts)
        require(step["busy_share"] <= 1 + 1e-9, "busy for more than the run", step)
        require(sum(step[k + "_steps"] for k in ("prefill", "decode", "mixed")) == step["steps"],
                "kinds of steps do not add up", step)
    for link in r.get("links", []):
        for name in ("utilisation_of_run_share", "utilisation_of_steps_share"):
            # Weights that move beside steps also move between them.
            moves = name == "utilisation_of_steps_share" and s["rebalance"] is not None
            require(moves or float(link[name] or 0) <= 1 + 1e-6, "a link carries more than its rate", link)
    c = s["conservation"]
    if not s["lost_gpus"]:
        require(close(c["assignments_routed"], c["assignments_executed"], 1e-6, 1e-3), "assignments are lost", c)
        require(close(c["sent_bytes"], c["received_bytes"], 1e-6, 1), "bytes are lost", c)
    inside = c["sent_between_nodes_bytes"] + c["sent_inside_nodes_bytes"]
    require(close(c["sent_bytes"], inside, 1e-6, 1), "bytes are neither inside nor between nodes", c)
    little = c["little_mean_in_system_requests"], c["little_arrivals_times_stay_requests"]
    if None not in little:
        require(close(*little, 1e-6), "Little's law", c)
    for name, value in s["balancedness"].items():
        if value is not None and name not in ("balancedness_worst_layer", "gpu_load_deviation"):
            require(0 <= value <= 1 + 1e-9, "balancedness is not a share", (name, value))
    for name in ("ttft", "itl", "tpot", "e2e", "queue"):
        figures = [s["latency"][f"{name}_{k}_ms"] for k in ("p50", "p90", "p99", "max")]
        if None not in figures:
            require(figures == sorted(figures) and figures[0] >= 0, "percentiles are out of order", (name, figures))
    gib = collections.defaultdict(float)
    for row in r.get("memory", []):
        require(float(row["memory_gib"]) >= -1e-9, "memory below 0", row)
        gib[(row.get("pool"), row["gpu"])] += float(row["memory_gib"])
    require(all(v <= 300 for v in gib.values()), "more memory than a GPU has", dict(gib))
    numbers(s, "")


def numbers(x, place):
    if isinstance(x, dict):
        for key, value in x.items():
            numbers(value, f"{place}.{key}")
    elif isinstance(x, list):
        for value in x:
            numbers(value, place)
    elif isinstance(x, float):
        require(x == x and abs(x) < 1e300, "a figure is not finite", place)


def same(a, b, kind):
    require(a["summary"]["fingerprint"] == b["summary"]["fingerprint"], kind,
            (a["summary"]["fingerprint"], b["summary"]["fingerprint"]))
    require(a["requests"] == b["requests"], kind, "requests.csv")


def mean_time(r):
    """The mean time in the system; an answer that fewer requests reach cannot be compared."""
    q = r["summary"]["requests"]
    whole = q["completed_requests"] == q["offered_requests"] and q["failed_requests"] == 0
    return r["summary"]["latency"]["e2e_mean_ms"] if whole else None


def check_no_slower(better, worse, kind):
    a, b = mean_time(better), mean_time(worse)
    if a is not None and b is not None:
        require(a <= b * (1 + ANOMALY) + 0.1, kind, f"mean end to end {a:.3f} ms with more, {b:.3f} ms with less")
