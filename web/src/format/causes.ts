// Words for the causes of waits: the table of causes in docs/explain.md.

const CAUSES: Record<string, string> = {
  stopped: "stopped",
  held: "on hold",
  notRunnable: "not started",
  queueQuota: "queue at its maximum",
  userQuota: "user or group at its limit",
  delay: "backs off",
  startFailed: "start failed",
  gang: "gang incomplete",
  placeholders: "needs a placeholder",
  requiredNode: "required node has no room",
  constraints: "excluded by its constraint",
  topology: "no domain has room",
  noNode: "no node has room",
  predicates: "refused by nodes",
  next: "not tried yet",
};

/** Words for a cause; an unknown one is its own name. */
export const wordsOf = (cause: string) => CAUSES[cause] ?? cause;
