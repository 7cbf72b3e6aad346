// Reads documents over REST. The caller's token is in the memory of this tab only: a stored one could be read
// by somebody else later.
import { computed, signal } from "@preact/signals";
import { now } from "../format/times";

/** Why a read failed. `status` is 0 if there was no response. */
export class ReadError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** A document, with the position of the next page of its list. */
export interface Read<T> {
  data: T;
  /** Position after the last row, for `after`; `null` at the end of the list. */
  next: string | null;
}

export type Connection = "connecting" | "live" | "lost" | "token";

/** State of reading. */
export const connection = signal<Connection>("connecting");
/** Why a token is requested; `null` while none is. */
export const tokenWanted = signal<string | null>(null);

/** The last state of the scheduler that was read: its step, and when, in milliseconds since the epoch. */
export const lastRead = signal<{ step: string; at: number } | null>(null);

/** Time after which the answer of a view that was left no longer counts, in milliseconds. */
const FORGOTTEN = 15_000;

/** For each list with a part missing: the members that did not answer, and when it was read. */
const missing = signal<Record<string, { names: string[]; at: number }>>({});

/** Members of a cluster whose part of a list is missing, because they did not answer in time. */
export const missingMembers = computed<string[]>(() => {
  const latest = Object.values(missing.value).filter(({ at }) => now.value - at < FORGOTTEN);
  return [...new Set(latest.flatMap(({ names }) => names))].sort();
});

/** Records the members named by the header of a list. */
export function noteMissing(path: string, header: string | null): void {
  const names = (header ?? "").split(",").map((name) => name.trim()).filter(Boolean);
  const { [path]: before, ...others } = missing.peek();
  if (names.length) missing.value = { ...others, [path]: { names, at: Date.now() } };
  else if (before) missing.value = others;
}

const token = signal<string | null>(null);

/** Whether requests carry a token. */
export const hasToken = () => token.value !== null;

/** Stores the token given by the caller. */
export function giveToken(given: string): void {
  token.value = given;
  tokenWanted.value = null;
  connection.value = "connecting";
}

/** Requests a token and suspends reading until there is one. */
export function askForToken(why: string): void {
  token.value = null;
  tokenWanted.value = why;
  connection.value = "token";
}

/** Returns a successful response; a body is posted. Throws a `ReadError` for any other. */
export async function request(path: string, signal?: AbortSignal, body?: string): Promise<Response> {
  const given = token.peek();
  const headers: Record<string, string> = given ? { Authorization: `Bearer ${given}` } : {};
  let response: Response;
  try {
    // The browser sends the tag of its copy and reads the body only if the document has changed.
    response = await fetch(path, { headers, cache: "no-cache", ...(signal && { signal }), ...(body !== undefined && { method: "POST", body }) });
  } catch (error) {
    if (signal?.aborted) throw error;
    connection.value = "lost";
    throw new ReadError(0, "no answer");
  }
  if (response.status === 401) {
    // Of several concurrent reads with one token, the first failure requests another token.
    if (token.peek() === given && tokenWanted.peek() === null) {
      askForToken(given ? "This token is not known here." : "Reading needs a token here.");
    }
    throw new ReadError(401, "a token is needed");
  }
  connection.value = "live";
  const step = response.headers.get("X-Step-Last");
  if (step !== null) lastRead.value = { step, at: Date.now() };
  noteMissing(path, response.headers.get("X-Monoceros-Missing-Members"));
  if (!response.ok) throw new ReadError(response.status, await told(response));
  return response;
}

/** Reads a document as JSON. */
export async function read<T>(path: string, signal?: AbortSignal): Promise<Read<T>> {
  const response = await request(path, signal);
  const data = (await response.json()) as T;
  return { data, next: nextPlace(response.headers.get("Link")) };
}

/** Position of the next page, from the header `Link`. */
export function nextPlace(link: string | null): string | null {
  const target = link?.match(/<([^>]*)>\s*;\s*rel="?next"?/)?.[1];
  if (target === undefined) return null;
  return new URL(target, "http://page").searchParams.get("after");
}

/** A path with its query; empty parameters are left out. */
export function path(base: string, query: Record<string, string | number | boolean | undefined>): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "" && value !== false) asked.set(name, String(value));
  }
  const text = asked.toString();
  return text ? `${base}?${text}` : base;
}

async function told(response: Response): Promise<string> {
  const text = await response.text().catch(() => "");
  try {
    const message: unknown = JSON.parse(text).message;
    return typeof message === "string" ? message : text;
  } catch {
    return text || response.statusText;
  }
}
