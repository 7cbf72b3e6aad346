import { expect, test } from "vitest";
import { hours } from "../src/format/amounts";
import { wordsOf } from "../src/format/causes";
import { human, rejection } from "../src/format/sentences";

test("amounts in sentences have the units of the page", () => {
  expect(human("its task groups ask for map[memory:1378684502016 vcore:321000], more than map[vcore:1000]")).toBe(
    "its task groups ask for 321 cores and 1.3 TiB, more than 1 core",
  );
  expect(human("ask for {memory: 1284Gi, nvidia.com/gpu: 8, vcore: 500m}, more than {memory: 560Gi, vcore: 140}")).toBe(
    "ask for 0.5 cores, 1.3 TiB and 8 nvidia.com/gpu, more than 140 cores and 560 GiB",
  );
  expect(human("available map[]")).toBe("available nothing");
  expect(human("the selector {zone in (a, b)} and map keys stay")).toBe("the selector {zone in (a, b)} and map keys stay");
});

test("times in sentences are spans or times of day", () => {
  expect(human("it was asked for at 2026-11-28T14:39:22.350357701Z, after 2026-11-28T14:39:16.335863096Z")).toBe("it was asked for 6 s later");
  expect(human("it was submitted at 2026-11-28T14:39:22.745Z, before 2026-11-28T14:39:24.606936Z")).toBe("it was submitted 1 s earlier");
  expect(human("until 2026-11-28T14:39:22.350357701Z")).toMatch(/^until \d\d:39:22\.350$/);
});

test("a rejection has no codes, and not the name of the application beside it", () => {
  expect(rejection("application `bad`: queue `root.b` does not exist [R_PLACEMENT E_PLACEMENT_NONE]; did you mean `root.a`?", "bad")).toBe(
    "queue `root.b` does not exist; did you mean `root.a`?",
  );
  expect(rejection("it came too late", "bad")).toBe("it came too late");
});

test("the summary of an ended application is a sentence", () => {
  const times = "submitted=2026-11-29T21:54:55.3Z started=2026-11-29T21:54:57.3Z finished=2026-11-29T21:56:55.3Z";
  expect(human(`state=Completed ${times} rm=demo user=carol queue=root.a`)).toBe(
    "ended after 2 min as Completed, started after 2 s; user carol, queue root.a",
  );
});

test("usage is in hours, with its unit", () => {
  expect(hours("vcore", 90_000)).toBe("90 core-seconds");
  expect([hours("vcore", 3_600_000), hours("memory", 3600 * 2 ** 30), hours("gpu", 7200)]).toEqual(["1 core-hour", "1 GiB-hours", "2 gpu-hours"]);
});

test("causes have words, and an unknown one is its name", () => {
  expect([wordsOf("queueQuota"), wordsOf("other")]).toEqual(["queue at its maximum", "other"]);
});
