// Reading over REST. The token of a caller is in the memory of this tab alone: nothing that is stored
// could be read by somebody else later.
import { signal } from "@preact/signals";

/** Why something was not read. `status` 0: there was no answer. */
export class ReadError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** A document, and where the next page of its list is. */
export interface Read<T> {
  data: T;
  /** The place behind the last row, for `after`; none where there is nothing more. */
  next: string | null;
}

export type Connection = "connecting" | "live" | "lost" | "token";

/** How reading fares. */
export const connection = signal<Connection>("connecting");
/** Why a token is asked for, while it is. */
export const tokenWanted = signal<string | null>(null);

const token = signal<string | null>(null);

/** Whether a token is sent. */
export const hasToken = () => token.value !== null;

/** Takes the token that the caller has given. */
export function giveToken(given: string): void {
  token.value = given;
  tokenWanted.value = null;
  connection.value = "connecting";
}

/** Asks for a token, and reads nothing until there is one. */
export function askForToken(why: string): void {
  token.value = null;
  tokenWanted.value = why;
  connection.value = "token";
}

/** A response that is a success. Anything else is thrown as a `ReadError`. */
export async function request(path: string, signal?: AbortSignal): Promise<Response> {
  const given = token.peek();
  const headers: Record<string, string> = given ? { Authorization: `Bearer ${given}` } : {};
  let response: Response;
  try {
    // With its tag the browser asks whether what it has is still the same.
    response = await fetch(path, { headers, cache: "no-cache", ...(signal && { signal }) });
  } catch (error) {
    if (signal?.aborted) throw error;
    connection.value = "lost";
    throw new ReadError(0, "no answer");
  }
  if (response.status === 401) {
    // Of several reads that were under way with one token, the first one asks for another.
    if (token.peek() === given && tokenWanted.peek() === null) {
      askForToken(given ? "This token is not known here." : "Reading needs a token here.");
    }
    throw new ReadError(401, "a token is needed");
  }
  connection.value = "live";
  if (!response.ok) throw new ReadError(response.status, await told(response));
  return response;
}

/** A document as JSON. */
export async function read<T>(path: string, signal?: AbortSignal): Promise<Read<T>> {
  const response = await request(path, signal);
  const data = (await response.json()) as T;
  return { data, next: nextPlace(response.headers.get("Link")) };
}

/** The place where the next page begins, as the header `Link` tells it. */
export function nextPlace(link: string | null): string | null {
  const target = link?.match(/<([^>]*)>\s*;\s*rel="?next"?/)?.[1];
  if (target === undefined) return null;
  return new URL(target, "http://page").searchParams.get("after");
}

/** A path with what is asked for; what is empty is left out. */
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
