// Whether the rows of a table are cards: on a small screen, beside a list, and where the table would not fit.
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Inner } from "../routes";
import { hasCards, mostOfName } from "./screen";

/** Returns whether rows are cards, and a reference to the box of the table. */
export function useCards(columns: number) {
  const box = useRef<HTMLDivElement>(null);
  const isInPanel = useContext(Inner) !== null;
  const [width, setWidth] = useState(0);
  const most = mostOfName.value;
  /** Width that the table was found to need, with so many columns and names of this length. */
  const [need, setNeed] = useState({ columns, most, width: 0 });
  const isTight = need.columns === columns && need.most === most && width < need.width;
  const isCards = isInPanel || hasCards.value || isTight;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  // Measured once the names in it have their final length, too.
  useEffect(() => {
    const element = box.current;
    if (element && !isCards && element.scrollWidth > element.clientWidth + 1) setNeed({ columns, most, width: element.scrollWidth });
  });
  return { isCards, box };
}
