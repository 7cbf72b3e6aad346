// Questions of what would happen, and words for the answers. Times of an answer are seconds after its snapshot.
import type { Seconds, WhatIfEvicted, WhatIfStart } from "../rest/types";
import { span } from "./times";

/** How far a question looks ahead unless another horizon is typed. */
export const HORIZON = "24h";

/** The body of a question. A configuration that is as in force is left out. */
export function question(rm: string, queues: string, inForce: string, horizon: string): string {
  const isChanged = queues.trim() !== inForce.trim();
  return JSON.stringify({ rm, horizon: horizon.trim() || HORIZON, ...(isChanged && { queues }) });
}

/** When something starts. */
export function after(time: Seconds | null): string {
  if (time === null) return "not in time";
  return time === 0 ? "at once" : `after ${span(time * 1000)}`;
}

/** How much earlier or later a request starts with the changes. */
export function difference({ a, b }: Pick<WhatIfStart, "a" | "b">): string {
  if (b === null) return "not any more";
  if (a === null) return "only with the change";
  return `${span(Math.abs(b - a) * 1000)} ${b < a ? "earlier" : "later"}`;
}

/** The rule by which an allocation is evicted. It ends before the name of a queue, if it is for one. */
export function ruleOf({ grounds, forQueue }: Pick<WhatIfEvicted, "grounds" | "forQueue">): string {
  switch (grounds) {
    case "guarantee":
      return forQueue ? "for the guarantee of" : "for a guarantee";
    case "quota":
      return forQueue ? "above the maximum of" : "above a maximum";
    case "requiredNode":
      return "for a request that can run on this node only";
    case "nodeRemoved":
      return "its node is removed";
    default:
      return "for other reasons";
  }
}

/** A share in percent. */
export const percent = (share: number) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
