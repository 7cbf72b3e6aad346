// Members of a cluster: what each serves, and states in words.
import type { Claim, GroupConfiguration, Member, Membership } from "../rest/types";

/** Most resource managers that are named for one member. */
const NAMED = 3;

/** The resource managers of each member, in the order of the claims. */
export function served(claims: Claim[]): Map<string, string[]> {
  const of = new Map<string, string[]>();
  for (const { member, rmId } of claims) {
    if (!member) continue;
    const known = of.get(member);
    if (known) known.push(rmId);
    else of.set(member, [rmId]);
  }
  return of;
}

/** The first names of a list, and how many more there are. */
export function firstNames(names: string[]): string {
  const more = names.length - NAMED;
  const shown = names.slice(0, NAMED).join(", ");
  return more > 0 ? `${shown} and ${more} more` : shown;
}

const MEANINGS: Record<string, string> = {
  alive: "It renews its record.",
  draining: "It hands its resource managers over, and takes no others.",
  silent: "It has not renewed its record of late. Others serve its resource managers as they register there.",
  fenced: "Its lease is over: it decides nothing until the store answers.",
  left: "It has ended in order.",
  deposed: "It was silent for the lease, and has lost its resource managers.",
};

/** Meaning of a member's state. */
export const meaningOf = (state: string): string => MEANINGS[state] ?? "";

/** Members that take part, then those that have ended. */
export function inOrder(members: Member[]): Member[] {
  const isOver = ({ state }: Member) => Number(state === "left" || state === "deposed");
  return [...members].sort((a, b) => isOver(a) - isOver(b) || (a.id < b.id ? -1 : 1));
}

/** Sentence on a configuration that a member cannot apply. */
export function behind(member: string | undefined, { policyGroup, inForce, inArbiter, reason }: GroupConfiguration): string {
  const of = policyGroup ? `policy group ${policyGroup}` : "all other policy groups";
  const keeps = inForce === undefined ? "" : ` It keeps version ${inForce}.`;
  return `${member} cannot apply version ${inArbiter ?? "–"} of the configuration of ${of}: ${reason}.${keeps}`;
}

/** Why the member that answers decides nothing; `null` if it decides. */
export function obstacle({ member, state, problem }: Membership): string | null {
  const why = problem ? ` The store does not answer: ${problem}` : "";
  switch (state) {
    case "serving":
      return problem ? `${member} does not reach the store of the claims: ${problem}` : null;
    case "joining":
      return `${member} is joining, and decides nothing yet.${why}`;
    case "fenced":
      return `${member} is fenced: its lease is over, and it decides nothing.${why}`;
    case "restored":
      return `The store of the claims went back to an earlier state. ${member} decides nothing until an operator accepts that: monoceros cluster accept-restore`;
    default:
      return null;
  }
}
