import { expect, test } from "vitest";
import { isMine, isOwner, isQueueShown, mineOf, mineText } from "../src/format/mine";

test("the filter is a text in the address", () => {
  const mine = { user: "ann", queue: "root.a:b" };
  expect(mineText(mine)).toBe("user:ann queue:root.a:b");
  expect(mineOf(mineText(mine))).toEqual(mine);
  expect(mineOf("label:team=a:b")).toEqual({ label: "team=a:b" });
  expect(mineOf("nonsense x:y user: group:g")).toEqual({ group: "g" });
  expect(mineText({})).toBe("");
});

test("applications pass by user, group and queue with those below", () => {
  const one = { queueName: "root.a.b", user: "ann", groups: ["lab"] };
  expect(isMine({}, one)).toBe(true);
  expect(isMine({ user: "ann", group: "lab", queue: "root.a" }, one)).toBe(true);
  expect(isMine({ queue: "root.a.bc" }, one)).toBe(false);
  expect(isMine({ group: "other" }, one)).toBe(false);
});

test("queues are shown with those above them", () => {
  const shown = (path: string) => isQueueShown(path, { user: "ann" }, [{ queueName: "root.a.b" }]);
  expect(["root", "root.a", "root.a.b", "root.ab"].map(shown)).toEqual([true, true, true, false]);
  const below = (path: string) => isQueueShown(path, { queue: "root.a" }, []);
  expect(["root", "root.a", "root.a.b", "root.b"].map(below)).toEqual([true, true, true, false]);
});

test("users and groups pass by name, and by the applications with a label", () => {
  const own = [{ queueName: "root.a", user: "ann", groups: ["lab"] }];
  expect([isOwner("user", "bob", {}, []), isOwner("user", "ann", { user: "ann" }, []), isOwner("user", "bob", { user: "ann" }, [])]).toEqual([true, true, false]);
  const labelled = { label: "team=x" };
  expect([isOwner("user", "ann", labelled, own), isOwner("user", "bob", labelled, own), isOwner("group", "lab", labelled, own)]).toEqual([true, false, true]);
});
