// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

func TestInnermostExceptionIsUsed(t *testing.T) {
	const details = `"details":[{"message":"Ex6F9304|A.Details|two"}]`
	for name, tc := range map[string]struct {
		body string
		want exception
	}{
		"inner first":       {`{"error":{"code":"BadRequest","message":"three",` + details + `,"innererror":{"internalexception":{"message":"one","type":"A.Inner"}}}}`, exception{"one", "A.Inner"}},
		"then details":      {`{"error":{"message":"three",` + details + `,"innererror":{"message":"Invalid Operation"}}}`, exception{"two", "A.Details"}},
		"then the message":  {`{"error":{"message":"three"}}`, exception{"three", ""}},
		"type from details": {`{"error":{` + details + `,"innererror":{"internalexception":{"message":"one"}}}}`, exception{"two", "A.Details"}},
		"empty inner":       {`{"error":{` + details + `,"innererror":{"internalexception":{}}}}`, exception{"two", "A.Details"}},
		"several lines":     {`{"error":{"details":[{"message":"|A.B|first\nsecond"}]}}`, exception{"first\nsecond", "A.B"}},
		"bars in the text":  {`{"error":{"details":[{"message":"|A.B|x|y"}]}}`, exception{"x|y", "A.B"}},
		"plain details":     {`{"error":{"message":"m","details":[{"message":"words only"}]}}`, exception{"words only", ""}},
		"not JSON":          {"\x00\x00", exception{}},
		"error is a string": {`{"error":"invalid_token"}`, exception{}},
	} {
		if _, got := parseError([]byte(tc.body)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func FuzzFailure(f *testing.F) {
	f.Add(400, `{"error":{"code":"BadRequest","message":"Invalid Operation","details":[{"code":"Client","message":"Ex6F9304|A.B|x"}],"innererror":{"internalexception":{"message":"m","type":"A.ServerBusyException"}}}}`)
	f.Add(403, strings.Repeat("\x00", 64))
	f.Add(504, "<html>")
	f.Add(200, `["|A.B|x"]`)
	f.Add(400, `{"error":{"details":[{"message":"|`+strings.Repeat("A.", 100)+`|x"}]}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		err := failureFromResponse(call.Response{Status: status, Body: []byte(body)})
		if status == 200 {
			err = reportedFailure([]byte(body))
		}
		if err == nil {
			if status != 200 {
				t.Fatal("no error for a response with an error status")
			}
			return
		}
		var result *outcome.Error
		if !errors.As(err, &result) || result.Kind == 0 || (result.Kind == outcome.Refused && result.Code.Name == "") {
			t.Fatalf("got %v, want an outcome, and an error code if the kind is Refused", err)
		}
		if strings.ContainsAny(result.Cause, "\x00\n<>\"'@|") || strings.ContainsAny(result.Detail, "\x00\n<>\"@|") {
			t.Fatalf("the cause %q or the detail %q contains text of the response, want only codes", result.Cause, result.Detail)
		}
	})
}
