// The page begins here.

import { render } from "preact";
import { App } from "./app";
import { takeFromAddress } from "./core/auth";
import { listenForKeys } from "./core/keys";
import { followLinks } from "./core/router";
import { applyTheme } from "./core/theme";
import "./css/tokens.css";
import "./css/base.css";
import "./css/parts.css";
import "./css/dialogs.css";
import "./css/home.css";
import "./css/jobs.css";
import "./css/job.css";
import "./css/waterfall.css";
import "./css/session.css";
import "./css/agents.css";
import "./css/metrics.css";

applyTheme();
takeFromAddress();
followLinks();
listenForKeys();
addEventListener("hashchange", takeFromAddress);
const root = document.getElementById("page");
if (root) render(<App />, root);
