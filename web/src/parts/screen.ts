// What depends on the width of the screen. The style has the same limits.
import { computed, signal } from "@preact/signals";

/** Whether the screen matches a query, as a signal. */
export function matches(query: string) {
  // Tests of functions have no screen.
  const media = globalThis.matchMedia?.(query);
  const found = signal(media?.matches ?? false);
  media?.addEventListener("change", (event) => {
    found.value = event.matches;
  });
  return found;
}

/** Whether rows of tables are cards. */
export const hasCards = matches("(max-width: 700px)");
/** Whether there is room for a view beside a list. */
export const isWide = matches("(min-width: 1000px)");
/** Whether sentences of a row are below it. */
export const isNarrow = matches("(max-width: 1200px)");

/** Most characters of a name in a row. */
export const mostOfName = computed(() => (hasCards.value ? 32 : isNarrow.value ? 24 : 28));
