// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestWhenALimitWasPassed(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	r := sendlimit.Reading{From: noon, To: at(60), Sent: []sendlimit.Sent{
		{Message: "3", Sender: "Ada@a.test", At: at(30)},
		{Message: "1", Sender: "ada@a.test", At: at(10)},
		{Message: "1", Sender: "ada@a.test", At: at(11)}, // its second recipient
		{Message: "2", Sender: "ada@a.test", At: at(20)},
		{Message: "4", Sender: "bob@a.test", At: at(1)},
		{Message: "5", Sender: "ada@a.test", At: at(5), Refused: true},
		{Message: "6", Sender: "ada@a.test", At: at(-1)}, // before the reading
		{Message: "7", Sender: "ada@a.test", At: today.End},
	}}
	for _, tt := range []struct {
		name  string
		limit int
		want  time.Time
	}{
		{"the second of one", 1, at(20)},
		{"the third of two", 2, at(30)},
		{"not yet", 3, time.Time{}},
	} {
		got, known := r.Passed("ada@a.test", tt.limit, today)
		if !got.Equal(tt.want) || known == tt.want.IsZero() {
			t.Errorf("%s: %s, %v", tt.name, got, known)
		}
	}
}
