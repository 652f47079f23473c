// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

func TestReadStatusShowsEachRecord(t *testing.T) {
	for _, tc := range []struct {
		name string
		sets []dns.RRSet
		want dns.Status
	}{
		{"no records", nil, dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "missing"}},
		{
			"all records", []dns.RRSet{
				rrset("a.test", dns.MX, "10 backup.test", "0 a-test.mail.protection.outlook.com"),
				rrset("a.test", dns.TXT, "other", "v=spf1 include:spf.protection.outlook.com -all", "MS=ms12345678"),
				rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none"),
				rrset("selector1._domainkey.a.test", dns.CNAME, target1+"."),
				rrset("Selector2._domainkey.a.test.", dns.CNAME, strings.ToUpper(target2)),
			},
			dns.Status{
				MX: "a-test.mail.protection.outlook.com.", SPF: "v=spf1 include:spf.protection.outlook.com -all",
				DMARC: "v=DMARC1; p=none", DKIM: "healthy", VerificationSeen: true,
			},
		},
		{
			"one selector right, one foreign", []dns.RRSet{
				rrset("selector1._domainkey.a.test", dns.CNAME, target1),
				rrset("selector2._domainkey.a.test", dns.CNAME, "elsewhere.test"),
			},
			dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "partial"},
		},
		{
			"texts that only begin like the records", []dns.RRSet{
				rrset("a.test", dns.TXT, "v=spf10 -all", "v=spf", "MS=ms123456789", "ms=MS12345678"),
				rrset("_dmarc.a.test", dns.TXT, "v=DMARC12"),
			},
			dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"version tags in any case", []dns.RRSet{
				rrset("a.test", dns.TXT, "V=SPF1"),
				rrset("_dmarc.a.test", dns.TXT, "v=dmarc1;p=reject"),
			},
			dns.Status{MX: "missing", SPF: "V=SPF1", DMARC: "v=dmarc1;p=reject", DKIM: "missing"},
		},
		{
			"a null MX, and an ownership record at a different name", []dns.RRSet{
				rrset("a.test", dns.MX, "0 ."),
				rrset("b.test", dns.TXT, "MS=ms12345678"),
			},
			dns.Status{MX: ".", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"verified by the MX", []dns.RRSet{rrset("a.test", dns.MX, "32767 ms1.msv1.invalid.")},
			dns.Status{MX: "ms1.msv1.invalid.", SPF: "missing", DMARC: "missing", DKIM: "missing", VerificationSeen: true},
		},
		{
			"of two MX hosts with equal preference, the first by name", []dns.RRSet{rrset("a.test", dns.MX, "5 b.test", "5 a.test")},
			dns.Status{MX: "a.test.", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"an invalid MX value", []dns.RRSet{rrset("a.test", dns.MX, "host.test", "5 right.test")},
			dns.Status{MX: "right.test.", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, dns.ReadStatus(readOf(tc.sets...), ownershipRecords, signing)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestReadStatusIgnoresAnswerOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mx := rapid.SliceOfN(rapid.SampledFrom([]string{"0 a.test", "0 b.test", "5 c.test", "x"}), 0, 4).Draw(t, "mx")
		txt := rapid.SliceOfN(rapid.SampledFrom([]string{"v=spf1 -all", "v=spf1 ~all", "MS=ms12345678", ""}), 0, 4).Draw(t, "txt")
		statusOf := func(mx, txt []string) dns.Status {
			return dns.ReadStatus(readOf(rrset("a.test", dns.MX, mx...), rrset("a.test", dns.TXT, txt...)), ownershipRecords, signing)
		}
		shuffled := statusOf(rapid.Permutation(mx).Draw(t, "shuffled mx"), rapid.Permutation(txt).Draw(t, "shuffled txt"))
		if diff := cmp.Diff(statusOf(mx, txt), shuffled); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestReadStatusEscapesBinary(t *testing.T) {
	status := dns.ReadStatus(readOf(rrset("a.test", dns.TXT, "v=spf1 \xff\x00 -all"), rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=\xfe")), nil, dns.Signing{})
	if status.SPF != `v=spf1 \255\000 -all` || status.DMARC != `v=DMARC1; p=\254` {
		t.Errorf("got %+v, want escaped texts", status)
	}
}

func TestAnIncompleteReadKeepsTheEarlierStatus(t *testing.T) {
	earlier := dns.Status{MX: "old.example.", SPF: "v=spf1 -all", DMARC: dns.Missing, DKIM: dns.DKIMPartial, VerificationSeen: true}
	allMissing := dns.Status{MX: dns.Missing, SPF: dns.Missing, DMARC: dns.Missing, DKIM: dns.Missing}
	allNew := dns.Status{MX: "new.example.", SPF: dns.Missing, DMARC: "v=DMARC1; p=none", DKIM: dns.DKIMHealthy}
	for _, tc := range []struct {
		name          string
		earlier, read dns.Status
		complete      bool
		want          dns.Status
	}{
		{"a complete read replaces the status", earlier, allMissing, true, allMissing},
		{"absence in an incomplete read means nothing", earlier, allMissing, false, earlier},
		{"an incomplete read only fills in missing values", earlier, allNew, false,
			dns.Status{MX: "old.example.", SPF: "v=spf1 -all", DMARC: "v=DMARC1; p=none", DKIM: dns.DKIMPartial, VerificationSeen: true}},
		{"a complete read replaces all values", earlier, allNew, true, allNew},
		{"the first read may be incomplete", dns.Status{}, allMissing, false, allMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := dns.MergeStatus(tc.earlier, tc.read, tc.complete); got != tc.want {
				t.Fatalf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestReadSoundnessFindsWorkingRecords(t *testing.T) {
	const platformSPFRecord, mxHost = "v=spf1 include:spf.protection.outlook.com -all", "a-test.mail.protection.outlook.com"
	platformOffer := dns.Offer{Verification: ownershipRecords, Signing: signing, Hosts: platformHosts, Service: []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: mxHost}, {Type: dns.TXT, Name: "a.test", Content: platformSPFRecord},
	}}
	selectors := []dns.RRSet{
		rrset("selector1._domainkey.a.test", dns.CNAME, target1), rrset("selector2._domainkey.a.test", dns.CNAME, target2),
	}
	mxRecords := func(values ...string) []dns.RRSet { return []dns.RRSet{rrset("a.test", dns.MX, values...)} }
	for _, tc := range []struct {
		name                      string
		offer                     dns.Offer
		sets                      []dns.RRSet
		referenced                map[string][]string
		wantSPF, wantDKIM, wantMX dns.Soundness
	}{
		{"unknown without the platform's records", dns.Offer{}, append(mxRecords("0 "+mxHost), selectors...), nil, dns.SoundnessUnknown, dns.SoundnessUnknown, dns.SoundnessUnknown},
		{"no records", platformOffer, nil, nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"both DKIM selectors", platformOffer, selectors, nil, dns.SoundnessWrong, dns.SoundnessRight, dns.SoundnessWrong},
		{"one DKIM selector of two", platformOffer, selectors[:1], nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"the platform's MX", platformOffer, mxRecords("0 " + mxHost), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessRight},
		{"another MX host of the platform", platformOffer, mxRecords("0 a-test.o-v1.mx.microsoft"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessRight},
		{"the platform's MX next to a foreign one", platformOffer, mxRecords("0 mx.other.test", "10 "+mxHost), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessRight},
		{"a foreign MX", platformOffer, mxRecords("0 mx.other.test"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"a null MX", platformOffer, mxRecords("0 ."), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"SPF includes the platform", platformOffer, spfRecords("other", "v=spf1 ip4:192.0.2.1 include:spf.protection.outlook.com ~all"), nil, dns.SoundnessRight, dns.SoundnessWrong, dns.SoundnessWrong},
		{"no SPF record", platformOffer, spfRecords("other"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"SPF without the platform", platformOffer, spfRecords("v=spf1 -all"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"SPF rejects the platform", platformOffer, spfRecords("v=spf1 -include:spf.protection.outlook.com ~all"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"two SPF records, which receivers reject", platformOffer, spfRecords(platformSPFRecord, "v=spf1 -all"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{"an invalid SPF record", platformOffer, spfRecords("v=spf1 nonsense"), nil, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong},
		{
			"SPF includes the platform through another name", platformOffer, spfRecords("v=spf1 include:_spf.a.test -all"),
			map[string][]string{"_spf.a.test": {platformSPFRecord}}, dns.SoundnessRight, dns.SoundnessWrong, dns.SoundnessWrong,
		},
		{
			"SPF includes another name, which does not include the platform", platformOffer, spfRecords("v=spf1 include:_spf.a.test -all"),
			map[string][]string{"_spf.a.test": {"v=spf1 ip4:192.0.2.1 -all"}}, dns.SoundnessWrong, dns.SoundnessWrong, dns.SoundnessWrong,
		},
		{"SPF includes another name, which was not read", platformOffer, spfRecords("v=spf1 include:_spf.a.test -all"), nil, dns.SoundnessUnknown, dns.SoundnessWrong, dns.SoundnessWrong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read := readOf(tc.sets...)
			read.Zone, read.Referenced.SPF = "a.test", tc.referenced
			if spf, dkim, mx := dns.ReadSoundness(read, tc.offer); spf != tc.wantSPF || dkim != tc.wantDKIM || mx != tc.wantMX {
				t.Fatalf("got SPF %d, DKIM %d, MX %d; want %d, %d, %d", spf, dkim, mx, tc.wantSPF, tc.wantDKIM, tc.wantMX)
			}
		})
	}
}
