// SPDX-License-Identifier: Apache-2.0
// Looks at every page for people in headless Chromium, as they meet them: by
// keyboard alone, without JavaScript, on a screen 320 pixels wide, in light and
// dark; and holds each against axe. Prints its findings and fails when there
// are any.
//
// Usage: node pages.mjs '{"api", "shots", "codes": […], "schemes": […], "viewports": […], "walks": [{"link", "username", "back": {"url", "parameters"} or null} × 4]}'
import { check, launch } from './look.mjs';
import { connectPages } from './connect.mjs';
import { docsPages } from './docs.mjs';

const task = JSON.parse(process.argv[2]);
const findings = [];
const browser = await launch();
try {
  const look = check(task.shots, findings);
  await connectPages(browser, task, look, findings);
  await docsPages(browser, task, look, findings);
} catch (e) {
  findings.push(e.stack);
} finally {
  await browser.close();
}
if (findings.length > 0) {
  console.error(findings.join('\n'));
  process.exit(1);
}
console.log('no findings');
