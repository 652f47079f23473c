// SPDX-License-Identifier: Apache-2.0
// node verify.js SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

/**
 * How far the timestamp of a message may be from the current time, in seconds. This limits how long
 * a recorded message can be sent again.
 */
const tolerance = 300;

/**
 * Reports whether one of the signatures was made with the secret. body must be the bytes as they
 * arrived, not JSON that was parsed and written again.
 */
export function verify(secret: string, id: string, timestamp: string, signatures: string, body: Buffer): boolean {
  if (!/^[0-9]+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) {
    return false;
  }
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const mac = createHmac("sha256", key).update(id + "." + timestamp + ".").update(body);
  const want = Buffer.from("v1," + mac.digest("base64"));
  return signatures.split(" ").some((signature) => {
    const given = Buffer.from(signature);
    return given.length === want.length && timingSafeEqual(given, want);
  });
}

const [secret = "", id = "", timestamp = "", signatures = ""] = process.argv.slice(2);
if (!verify(secret, id, timestamp, signatures, readFileSync(0))) {
  console.error("not verified");
  process.exitCode = 1;
}
