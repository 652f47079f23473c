// SPDX-License-Identifier: Apache-2.0
// Checks the service's pages in headless Chromium: by keyboard alone, without JavaScript,
// on a screen 320 pixels wide, in light and dark colours, and with axe. It prints its
// findings, and fails if there are any.
//
// Usage: node pages.mjs '{"api", "shots", "codes": […], "operations", "schemes": […], "viewports": […], "walks": [{"link", "username", "back": {"url", "parameters"} or null} × 4]}'
import { launch, newCheck } from './look.mjs';
import { connectPages } from './connect.mjs';
import { docsPages } from './docs.mjs';

const task = JSON.parse(process.argv[2]);
const findings = [];
const browser = await launch();
try {
  const look = newCheck(task.shots, findings);
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
