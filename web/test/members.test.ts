import { expect, test } from "vitest";
import { firstNames, inOrder, meaningOf, obstacle, served } from "../src/format/members";
import { missingMembers, noteMissing } from "../src/rest/client";
import type { Claim, Member } from "../src/rest/types";

const claim = (rmId: string, member?: string): Claim => ({ rmId, sessionId: "1", sinceMs: 0, ...(member && { member }) });
const member = (id: string, state: string): Member => ({ id, state, incarnation: "", version: "", grpc: "", rest: "", rms: 0, load: 0 });

test("resource managers are listed by the member that serves them", () => {
  const of = served([claim("a", "m1"), claim("b", "m2"), claim("c", "m1"), claim("d")]);
  expect([...of]).toEqual([["m1", ["a", "c"]], ["m2", ["b"]]]);
  expect(firstNames([])).toBe("");
  expect(firstNames(["a", "b", "c"])).toBe("a, b, c");
  expect(firstNames(["a", "b", "c", "d", "e"])).toBe("a, b, c and 2 more");
});

test("members that have ended come last", () => {
  const members = [member("m1", "left"), member("m3", "alive"), member("m2", "silent"), member("m0", "deposed")];
  expect(inOrder(members).map(({ id }) => id)).toEqual(["m2", "m3", "m0", "m1"]);
  for (const state of ["alive", "draining", "silent", "fenced", "left", "deposed"]) expect(meaningOf(state)).toMatch(/\.$/);
  expect(meaningOf("another")).toBe("");
});

test("a member says why it decides nothing", () => {
  expect(obstacle({ member: "m1", state: "serving" })).toBe(null);
  expect(obstacle({ member: "m1", state: "serving", problem: "no answer" })).toBe("m1 does not reach the store of the claims: no answer");
  expect(obstacle({ member: "m1", state: "fenced", problem: "no answer" })).toBe(
    "m1 is fenced: its lease is over, and it decides nothing. The store does not answer: no answer",
  );
  expect(obstacle({ member: "m1", state: "restored" })).toContain("monoceros cluster accept-restore");
});

test("members without an answer are named until the list is whole", () => {
  noteMissing("/ws/v1/sessions", "m2, m3");
  noteMissing("/ws/v1/partitions", "m2");
  expect(missingMembers.value).toEqual(["m2", "m3"]);
  noteMissing("/ws/v1/sessions", null);
  expect(missingMembers.value).toEqual(["m2"]);
  noteMissing("/ws/v1/partitions", null);
  expect(missingMembers.value).toEqual([]);
});
