// Sentences of the service with amounts and times in the units of the page.
import { amounts } from "./amounts";
import { clock, span } from "./times";
import type { Resources } from "../rest/types";

/** Factors of the suffixes of quantities. */
const FACTORS: Record<string, number> = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].forEach((suffix, at) => {
  FACTORS[suffix] = 1024 ** (at + 1);
});

const STAMP = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?Z";
/** Thousandths of cores and bytes: `map[memory:1024 vcore:500]`. */
const PLAIN = /map\[([^\]]*)\]/g;
/** Quantities with suffixes: `{memory: 1284Gi, vcore: 321}`. */
const SUFFIXED = /\{([\w./-]+: -?[\d.]+\w*(?:, [\w./-]+: -?[\d.]+\w*)*)\}/g;
const COMPARED = new RegExp(`(it was asked for|it was submitted) at (${STAMP}), (after|before) (${STAMP})`, "g");
const TIME = new RegExp(STAMP, "g");
/** Summary of an application that has ended. */
const SUMMARY = new RegExp(`^state=(\\S+) submitted=(${STAMP}) started=(${STAMP}) finished=(${STAMP}) rm=\\S+ user=(\\S+) queue=(\\S+)$`);

/** A sentence in the units of the page. */
export function human(text: string): string {
  return text
    .replace(SUMMARY, (_, state: string, submitted: string, started: string, finished: string, user: string, queue: string) =>
      `ended after ${between(submitted, finished)} as ${state}, started after ${between(submitted, started)}; user ${user}, queue ${queue}`)
    .replace(PLAIN, (_, inner: string) => listed(plain(inner)))
    .replace(SUFFIXED, (_, inner: string) => listed(suffixed(inner)))
    .replace(COMPARED, (_, what: string, at: string, order: string, other: string) =>
      order === "after" ? `${what} ${between(other, at)} later` : `${what} ${between(at, other)} earlier`)
    .replace(TIME, (stamp) => clock(Date.parse(stamp) * 1e6));
}

/** A reason of rejection where the application is shown: without its name, and without the codes of the reason. */
export const rejection = (message: string, id: string) =>
  (message.startsWith(`application \`${id}\`: `) ? message.slice(id.length + "application ``: ".length) : message).replace(/ ?\[R_[^\]]*\]/g, "");

const between = (from: string, to: string) => span(Date.parse(to) - Date.parse(from));

const listed = (of: Resources) => amounts(of).replace(/, ([^,]*)$/, " and $1") || "nothing";

function plain(inner: string): Resources {
  const pairs = inner.split(" ").filter(Boolean).map((pair): [string, number] => {
    const colon = pair.lastIndexOf(":");
    return [pair.slice(0, colon), Number(pair.slice(colon + 1))];
  });
  return Object.fromEntries(pairs);
}

function suffixed(inner: string): Resources {
  const pairs = inner.split(", ").map((pair): [string, number] => {
    const [name = "", text = ""] = pair.split(": ");
    const [, digits = "0", suffix = ""] = /^(-?[\d.]+)(\w*)$/.exec(text) ?? [];
    const quantity = Number(digits) * (FACTORS[suffix] ?? 1);
    return [name, Math.round(name === "vcore" ? quantity * 1000 : quantity)];
  });
  return Object.fromEntries(pairs);
}
