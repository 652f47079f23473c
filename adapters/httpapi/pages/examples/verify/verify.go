// SPDX-License-Identifier: Apache-2.0

// Command verify checks the signature of a webhook's message:
//
//	verify SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far the timestamp of a message may be from the current time. It limits how long
// a recorded message can be sent again.
const tolerance = 5 * time.Minute

// Verify returns nil if one of the signatures was made with the secret and the timestamp is within
// the tolerance. body must be the bytes as they arrived, not JSON that was decoded and encoded
// again.
func Verify(secret, id, timestamp, signatures string, body []byte) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return errors.New("the timestamp is not valid")
	}
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return errors.New("the message is too old or too new")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return errors.New("the secret is not valid")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, signature := range strings.Fields(signatures) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature was made with this secret")
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: verify SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body")
		os.Exit(2)
	}
	body, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = Verify(os.Args[1], os.Args[2], os.Args[3], os.Args[4], body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "not verified:", err)
		os.Exit(1)
	}
}
