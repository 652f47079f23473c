// SPDX-License-Identifier: Apache-2.0

package dns

import "testing"

func TestMerge(t *testing.T) {
	earlier := Status{MX: "old.example.", SPF: "v=spf1 -all", DMARC: Missing, DKIM: DKIMPartial, VerificationSeen: true}
	nothing := Status{MX: Missing, SPF: Missing, DMARC: Missing, DKIM: Missing}
	news := Status{MX: "new.example.", SPF: Missing, DMARC: "v=DMARC1; p=none", DKIM: DKIMHealthy}
	for _, tt := range []struct {
		name          string
		earlier, seen Status
		complete      bool
		want          Status
	}{
		{"a complete read counts alone", earlier, nothing, true, nothing},
		{"absence in an incomplete read means nothing", earlier, nothing, false, earlier},
		{"an incomplete read only fills in what nobody had seen", earlier, news, false,
			Status{MX: "old.example.", SPF: "v=spf1 -all", DMARC: "v=DMARC1; p=none", DKIM: DKIMPartial, VerificationSeen: true}},
		{"a complete read replaces it all", earlier, news, true, news},
		{"the first read of all may be incomplete", Status{}, nothing, false, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Merge(tt.earlier, tt.seen, tt.complete); got != tt.want {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
