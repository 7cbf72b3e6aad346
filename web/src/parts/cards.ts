// Whether the rows of a table are cards: on a small screen, beside a list, and where the table would not fit.
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Inner } from "../routes";
import { hasCards } from "./screen";

/** Returns whether rows are cards, and a reference to the box of the table. */
export function useCards(columns: number) {
  const box = useRef<HTMLDivElement>(null);
  const isInPanel = useContext(Inner) !== null;
  const [width, setWidth] = useState(0);
  /** Width that the table with so many columns was found to need. */
  const [need, setNeed] = useState({ columns, width: 0 });
  const isTight = need.columns === columns && width < need.width;
  const isCards = isInPanel || hasCards.value || isTight;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && !isCards && element.scrollWidth > element.clientWidth + 1) setNeed({ columns, width: element.scrollWidth });
  });
  return { isCards, box };
}
