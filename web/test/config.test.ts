import { expect, test } from "vitest";
import { difference, edited } from "../src/format/config";

const TEXT = `partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues:
    - name: batch
      resources:
        guaranteed:
          vcore: "1"
        max:
          vcore: "4"
      queues:
      - name: team
        maxapplications: 2
        limits:
        - limit: everybody
          users:
          - "*"
          maxapplications: 1
        - limit: of ann
          users:
          - ann
          maxresources:
            vcore: "2"
    - name: idle
- name: gpu
  queues:
  - name: root
checksum: ABC
extra:
  a: b
`;

/** Lines that a change takes out and puts in. */
function change(queue: string, keys: string[], lines: string[], owner?: { kind: "user" | "group"; name: string }) {
  const found = edited(TEXT, "default", { queue, keys, lines, ...(owner && { owner }) });
  expect(found?.after).not.toContain("checksum");
  return found && difference(found.before, found.after);
}

test("a maximum is replaced at its place", () => {
  expect(change("root.batch", ["resources", "max"], ['vcore: "6"'])).toEqual({ out: ['          vcore: "4"'], in: ['          vcore: "6"'] });
  expect(change("root.batch.team", ["maxapplications"], ["3"])).toEqual({ out: ["        maxapplications: 2"], in: ["        maxapplications: 3"] });
});

test("mappings that are missing are made", () => {
  expect(change("root.idle", ["resources", "max"], ['vcore: "6"'])).toEqual({ out: [], in: ["      resources:", "        max:", '          vcore: "6"'] });
});

test("a limit of a user is changed, or put before those of everybody", () => {
  const user = (name: string) => ({ kind: "user" as const, name });
  expect(change("root.batch.team", ["maxresources"], ['vcore: "5"'], user("ann"))).toEqual({ out: ['            vcore: "2"'], in: ['            vcore: "5"'] });
  expect(change("root.batch.team", ["maxapplications"], ["4"], user("bob"))?.in).toEqual(["        - limit: of bob", "          users:", '          - "bob"', "          maxapplications: 4"]);
  expect(change("root.idle", ["maxapplications"], ["4"], user("bob"))?.in[0]).toEqual("      limits:");
});

test("a queue that the configuration does not name has no change", () => {
  expect(edited(TEXT, "default", { queue: "root.dynamic", keys: ["maxapplications"], lines: ["1"] })).toBeUndefined();
  expect(edited(TEXT, "nowhere", { queue: "root", keys: ["maxapplications"], lines: ["1"] })).toBeUndefined();
});
