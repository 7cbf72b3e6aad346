import { render } from "preact";
import { LocationProvider } from "preact-iso";
import { App } from "./app";
import { colourPage } from "./parts/theme";
import { restoreMine } from "./rest/mine";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";

// Links to anything else than a view (REST documents, for example) are left to the browser.
const VIEWS = /^\/(ui\/[a-z]+)?(\?|#|$)/;

restoreMine();
colourPage();

const place = document.getElementById("app");
if (place) {
  render(
    <LocationProvider scope={VIEWS}>
      <App />
    </LocationProvider>,
    place,
  );
}
