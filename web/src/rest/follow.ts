// Follows events: a stream of lines that is reopened when it ends, with the lines missed in between.
import { ReadError, request, tokenWanted } from "./client";
import type { EventRecord } from "./types";

/** An event, or a remark about the stream between two events. */
export interface Line {
  /** Rises with each line of this tab. */
  number: number;
  record?: EventRecord;
  remark?: string;
}

export type Following = "opening" | "live" | "lost" | "off";

/** Number of past events that are requested at the start and after a reconnect. */
const PAST = 200;
const PAST_AGAIN = 1000;
/** Number of last lines that are compared to find the position after a reconnect. */
const THREAD = 3;
/** First and longest pause before the stream is opened again, in milliseconds. */
const PAUSE = 500;
const MOST_PAUSE = 10_000;

/**
 * Index of the first new line among past lines that were received again: the one after the last known
 * lines. `-1` if those are not among them, so lines in between are lost.
 */
export function thread(before: string[], again: string[]): number {
  if (!before.length) return 0;
  for (let end = again.length; end >= before.length; end--) {
    if (before.every((line, at) => again[end - before.length + at] === line)) return end;
  }
  return -1;
}

/** Follows events until `over`. Delivers each event once; gaps and reconnects are remarks. */
export async function follow(
  take: (lines: Omit<Line, "number">[]) => void,
  say: (state: Following, why?: string) => void,
  over: AbortSignal,
): Promise<void> {
  let run: string | undefined;
  let last: string[] = [];
  let pause = PAUSE;
  while (!over.aborted) {
    say(run === undefined ? "opening" : "lost");
    try {
      const response = await request(`/ws/v1/events/stream?count=${run === undefined ? PAST : PAST_AGAIN}`, over);
      // Past lines received again, until the position of the last known lines is found in them.
      let again: string[] | undefined = run === undefined ? undefined : [];
      let first = true;
      for await (const lines of linesOf(response, over)) {
        const fresh: string[] = [];
        for (const line of lines) {
          if (first) {
            first = false;
            const uuid: unknown = JSON.parse(line).InstanceUUID;
            if (run !== undefined && uuid !== run) {
              take([{ remark: "The service was started anew: what follows is of another run." }]);
              again = undefined;
              last = [];
            }
            run = String(uuid);
          } else if (!line.startsWith('{"status_code"')) {
            fresh.push(line);
          } else {
            take([{ remark: "The service closed the stream, as more came than was taken." }]);
          }
        }
        pause = PAUSE;
        say("live");
        let told = fresh;
        if (again !== undefined) {
          // If so many lines do not contain the position, it is lost.
          again.push(...fresh);
          const at = thread(last, again);
          if (at < 0 && again.length < PAST_AGAIN) continue;
          take([{ remark: at < 0 ? "The connection was lost, and events in between are missing." : "The connection was lost for a moment; nothing is missing." }]);
          told = again.slice(Math.max(at, 0));
          again = undefined;
        }
        last = [...last, ...told].slice(-THREAD);
        take(told.map((line) => ({ record: JSON.parse(line) as EventRecord })));
      }
    } catch (error) {
      if (over.aborted) return;
      if (error instanceof ReadError && error.status > 0 && error.status !== 503) {
        say("off", error.status === 403 ? "The token that was given may not follow events." : error.message);
        return;
      }
    }
    if (tokenWanted.peek() !== null) return;
    say("lost");
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, MOST_PAUSE);
  }
}

/** Complete lines of a response, as many at a time as were received. */
async function* linesOf(response: Response, over: AbortSignal): AsyncGenerator<string[]> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  try {
    while (!over.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      if (lines.length) yield lines;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
