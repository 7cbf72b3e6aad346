// Polls the documents on display while the tab is visible. A document that takes longer to read is read less
// often.
import { useEffect, useState } from "preact/hooks";
import { ReadError, type Read, read, tokenWanted } from "./client";

/** State of a document. The last result stays while it is read again. */
export interface Polled<T> {
  data: T | undefined;
  next: string | null;
  error: ReadError | undefined;
}

/** Reading a document takes at most a tenth of the time. */
const SHARE = 10;
/** Longest pause before a missing document is requested again, in seconds. */
const MOST_PAUSE = 60;

/** Reads a document at once and then about every `seconds`; `null` reads nothing. */
export function usePolled<T>(path: string | null, seconds: number): Polled<T> {
  return useReading<T>(path, seconds, read<T>);
}

/** Reads the pages of a list, up to a maximum of rows; `next` is set if there are more. */
export function useAllPages<T>(path: string | null, seconds: number, pages: number): Polled<T[]> {
  return useReading<T[]>(path, seconds, async (first, signal) => {
    let page = await read<T[]>(first, signal);
    let rows = page.data;
    for (let n = 1; n < pages && page.next !== null; n++) {
      const behind = `${first}${first.includes("?") ? "&" : "?"}after=${encodeURIComponent(page.next)}`;
      page = await read<T[]>(behind, signal);
      rows = rows.concat(page.data);
    }
    return { ...page, data: rows };
  });
}

const NOTHING = { data: undefined, next: null, error: undefined };

function useReading<T>(
  path: string | null,
  seconds: number,
  readIt: (path: string, signal: AbortSignal) => Promise<Read<T>>,
): Polled<T> {
  const [known, setKnown] = useState<{ path: string | null } & Polled<T>>({ path, ...NOTHING });
  const wanted = tokenWanted.value;
  useEffect(() => {
    if (path === null || wanted !== null) return;
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Whether a read was due while the tab was hidden.
    let missed = false;
    let misses = 0;
    const look = async () => {
      if (document.hidden) {
        missed = true;
        return;
      }
      const began = performance.now();
      let pause = seconds;
      try {
        const found = await readIt(path, over.signal);
        if (!over.signal.aborted) setKnown({ path, ...found, error: undefined });
      } catch (error) {
        if (over.signal.aborted) return;
        // What is missing rarely comes back, and each failed request is an error of the console.
        if (error instanceof ReadError && error.status === 404) pause = Math.min(MOST_PAUSE, seconds * 2 ** ++misses);
        const failure = error instanceof ReadError ? error : new ReadError(0, String(error));
        setKnown((before) => ({ ...(before.path === path ? before : { path, ...NOTHING }), error: failure }));
      }
      if (over.signal.aborted) return;
      timer = setTimeout(look, Math.max(pause * 1000, SHARE * (performance.now() - began)));
    };
    const seen = () => {
      if (document.hidden || !missed) return;
      missed = false;
      void look();
    };
    document.addEventListener("visibilitychange", seen);
    void look();
    return () => {
      over.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, seconds, wanted]);
  // The state of another path is not shown for this one.
  return known.path === path ? known : NOTHING;
}
