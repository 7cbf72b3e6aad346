// Documents that are shown, read again and again for as long as somebody sees them: a tab that is
// hidden reads nothing, and the longer a document takes, the less often it is read.
import { useEffect, useState } from "preact/hooks";
import { ReadError, type Read, read, tokenWanted } from "./client";

/** What is known of a document. What was read last stays while it is read again. */
export interface Polled<T> {
  data: T | undefined;
  next: string | null;
  error: ReadError | undefined;
}

/** A document is read at most for a tenth of the time. */
const SHARE = 10;

/** Reads a document at once and then about every so many seconds; `null`: none is wanted. */
export function usePolled<T>(path: string | null, seconds: number): Polled<T> {
  return useReading<T>(path, seconds, read<T>);
}

/** Reads all pages of a list of rows, up to so many; `next` says that there are more. */
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
    // Whether a reading was due while nobody saw the page.
    let missed = false;
    const look = async () => {
      if (document.hidden) {
        missed = true;
        return;
      }
      const began = performance.now();
      try {
        const found = await readIt(path, over.signal);
        if (!over.signal.aborted) setKnown({ path, ...found, error: undefined });
      } catch (error) {
        if (over.signal.aborted) return;
        const failure = error instanceof ReadError ? error : new ReadError(0, String(error));
        setKnown((before) => ({ ...(before.path === path ? before : { path, ...NOTHING }), error: failure }));
      }
      if (over.signal.aborted) return;
      timer = setTimeout(look, Math.max(seconds * 1000, SHARE * (performance.now() - began)));
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
  // What is known of another path is not shown for this one.
  return known.path === path ? known : NOTHING;
}
