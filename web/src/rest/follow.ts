// Following events: a stream of lines that is opened again when it ends, and what of it was missed.
import { ReadError, request, tokenWanted } from "./client";
import type { EventRecord } from "./types";

/** An event, or a remark about the stream between two of them. */
export interface Line {
  /** Rises with each line of this tab. */
  number: number;
  record?: EventRecord;
  remark?: string;
}

export type Following = "opening" | "live" | "lost" | "off";

/** Past events that are asked for at the beginning, and to find the thread again. */
const PAST = 200;
const PAST_AGAIN = 1000;
/** How many of the last lines say where the thread is. */
const THREAD = 3;
/** How long to wait before opening it again, in milliseconds, and at most. */
const PAUSE = 500;
const MOST_PAUSE = 10_000;

/**
 * Where new lines begin among past ones that were sent again: behind the last lines of before. `-1`: these
 * are not among them, so what came in between is lost.
 */
export function thread(before: string[], again: string[]): number {
  if (!before.length) return 0;
  for (let end = again.length; end >= before.length; end--) {
    if (before.every((line, at) => again[end - before.length + at] === line)) return end;
  }
  return -1;
}

/** Follows events until `over`; each is told once, and gaps and reconnects are remarks. */
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
      // Past lines that were asked for again, until the thread is found in them.
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
          // Where so many have come without the thread, it is lost.
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

/** The whole lines of a response, as many at a time as have come. */
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
