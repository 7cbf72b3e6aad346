// Usage over time: the ranges that a reader chooses among, and the lines of a chart.
import type { SubjectHistory } from "../rest/types";
import { amount, isBytes, ranked, title } from "./amounts";

/** Ranges of time by their names in the address; the first is the default. */
export const RANGES: [string, string][] = [
  ["1h", "last hour"],
  ["6h", "last 6 hours"],
  ["1d", "last day"],
];

const SECONDS: Record<string, number> = { "1h": 3600, "6h": 21_600, "1d": 86_400 };

/** Seconds of a range; an unknown one is an hour. */
export const secondsOf = (range: string | undefined) => SECONDS[range ?? "1h"] ?? 3600;

export type Values = (number | null)[];

/** The amounts of one resource type, as many values as times. A missing one never occurred. */
export interface Amounts {
  used: Values;
  /** Largest usage in the time of each point, where a point stands for several samples. */
  peak: Values | undefined;
  waiting: Values | undefined;
  guaranteed: Values | undefined;
  maximum: Values | undefined;
}

/** The amounts of a resource type in a history. */
export function amountsOf(history: SubjectHistory, resource: string): Amounts {
  const find = (name: string) => history.amounts.find((one) => one.amount === name && one.resource === resource);
  const used = find("used");
  const isMerged = history.pointSeconds > history.sampleSeconds;
  const isAny = (values: Values | undefined) => (values?.some((value) => value) ? values : undefined);
  return {
    used: used?.mean ?? history.times.map(() => 0),
    peak: isMerged ? used?.max : undefined,
    waiting: isAny(find("waiting")?.mean),
    guaranteed: isAny(find("guaranteed")?.mean),
    maximum: find("maximum")?.mean,
  };
}

/** The last known value. */
export const lastOf = (values: Values | undefined) => values?.findLast((value) => value !== null) ?? undefined;

/** Resource types in a history in the order of their use to a reader; `shown` of them are always shown. */
export function typesOf(history: SubjectHistory): { names: string[]; shown: number } {
  const most = (amount: string) =>
    Object.fromEntries(
      history.amounts.filter((one) => one.amount === amount).map((one) => [one.resource, Math.max(0, ...one.max.map((value) => value ?? 0))]),
    );
  const used = most("used");
  return ranked({ capacity: { ...used, ...most("guaranteed"), ...most("maximum") }, used, pending: most("waiting") });
}

/** Divisor and name of the unit in which a chart shows amounts of a type up to `most`. */
export function unitOf(name: string, most: number): { divisor: number; unit: string } {
  if (name === "vcore") return { divisor: 1000, unit: "cores" };
  if (!isBytes(name)) return { divisor: 1, unit: title(name) };
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, most)) / 10)));
  const unit = ["B", "KiB", "MiB", "GiB", "TiB"][power] ?? "B";
  return { divisor: 1024 ** power, unit: name === "memory" ? unit : `${unit} of ${name}` };
}

/** The last values in words: `44 of 100, 20 waiting, 60 guaranteed`. */
export function summary(name: string, of: Amounts): string {
  const [used, waiting, guaranteed, maximum] = [of.used, of.waiting, of.guaranteed, of.maximum].map(lastOf);
  const say = (quantity: number) => amount(name, quantity);
  const parts = [maximum === undefined ? `${say(used ?? 0)} used` : `${say(used ?? 0)} of ${say(maximum)}`];
  if (waiting) parts.push(`${say(waiting)} waiting`);
  if (guaranteed) parts.push(`${say(guaranteed)} guaranteed`);
  return parts.join(", ");
}
