import { expect, test } from "vitest";
import { amountsOf, lastOf, secondsOf, summary, typesOf, unitOf } from "../src/format/history";
import type { SubjectHistory } from "../src/rest/types";

const one = (amount: string, resource: string, mean: (number | null)[], max = mean) => ({ amount, resource, mean, max });
const history: SubjectHistory = {
  sampleSeconds: 15,
  pointSeconds: 30,
  times: [1, 2, 3],
  amounts: [
    one("used", "vcore", [1000, null, 44_000], [2000, null, 50_000]),
    one("maximum", "vcore", [100_000, 100_000, 100_000]),
    one("waiting", "vcore", [0, 0, 0]),
    one("waiting", "nvidia.com/gpu", [0, 2, 3]),
    one("maximum", "hugepages-2Mi", [5, 5, 5]),
  ],
};

test("a chart has the lines that occur", () => {
  expect(amountsOf(history, "vcore")).toEqual({
    used: [1000, null, 44_000],
    peak: [2000, null, 50_000],
    waiting: undefined,
    guaranteed: undefined,
    maximum: [100_000, 100_000, 100_000],
  });
  expect(amountsOf({ ...history, pointSeconds: 15 }, "vcore").peak).toBeUndefined();
  expect(amountsOf(history, "nvidia.com/gpu").used).toEqual([0, 0, 0]);
});

test("types come in the order of need, unused ones on demand", () => {
  expect(typesOf(history)).toEqual({ names: ["nvidia.com/gpu", "vcore", "hugepages-2Mi"], shown: 2 });
});

test("the last known values are said", () => {
  expect(lastOf([1, null])).toBe(1);
  expect(lastOf([null])).toBeUndefined();
  expect(summary("vcore", amountsOf(history, "vcore"))).toBe("44 of 100");
  expect(summary("nvidia.com/gpu", amountsOf(history, "nvidia.com/gpu"))).toBe("0 used, 3 waiting");
});

test("units fit the largest value", () => {
  expect(unitOf("vcore", 5000)).toEqual({ divisor: 1000, unit: "cores" });
  expect(unitOf("memory", 3 * 2 ** 40)).toEqual({ divisor: 2 ** 40, unit: "TiB" });
  expect(unitOf("memory", 0)).toEqual({ divisor: 1, unit: "B" });
  expect(unitOf("hugepages-2Mi", 2 ** 21)).toEqual({ divisor: 2 ** 20, unit: "MiB of hugepages-2Mi" });
});

test("ranges have their seconds", () => {
  expect([secondsOf(undefined), secondsOf("6h"), secondsOf("1d"), secondsOf("x")]).toEqual([3600, 21_600, 86_400, 3600]);
});
