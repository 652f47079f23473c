// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// verificationToken returns the token that proves ownership of a domain. It never changes for a
// domain in a tenant, and differs between tenants.
func (t *tenant) verificationToken(name string) string {
	return "ms" + deriveDigits(8, "proof", t.ID, name)
}

// listVerificationRecords answers GET /domains/{fqdn}/verificationDnsRecords with two records.
// Publishing one of them is enough.
func listVerificationRecords(c *graphCall, t *tenant) result {
	d, refusal := c.visibleDomain(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	text := dnsRecord(t, d.Name, "Txt", d.Name)
	text["text"] = "MS=" + t.verificationToken(d.Name)
	mail := dnsRecord(t, d.Name, "Mx", d.Name)
	mail["mailExchange"], mail["preference"] = t.verificationToken(d.Name)+".msv1.invalid", 32767
	return c.collection("domains('"+d.Name+"')/verificationDnsRecords", []object{text, mail})
}

// verifyDomain answers POST /domains/{fqdn}/verify.
func verifyDomain(call *graphCall) result {
	call.s.store.verifyMu.Lock()
	defer call.s.store.verifyMu.Unlock()
	name := strings.ToLower(call.r.PathValue("id"))
	token := ""
	call.file.View(func(t *tenant) { token = t.verificationToken(name) })
	isVerifiedElsewhere, isPublished := call.isVerifiedInOtherTenant(name), call.isVerificationRecordPublished(name, token)
	return withTenant(func(call *graphCall, t *tenant) result {
		d := t.domain(name)
		switch {
		case d == nil:
			return errorResult(errNotFound.with(name))
		case d.Verified:
			return errorResult(errVerified.with(""))
		case isVerifiedElsewhere || t.isVerifiedOutsideSimulator(name): // a permanent refusal, whatever the DNS contains
			return errorResult(errVerifiedElsewhere.with(name))
		case !isPublished || !d.NegativeCacheLag.hasPassed(call.now):
			if !isPublished {
				d.NegativeCacheLag = startLag(call.now, t.Behaviour.DNSNegativeMS)
			}
			return errorResult(errNoRecord.with(name))
		}
		d.Verified, d.Root = true, true
		return call.entity(http.StatusOK, "domains", domainObject(*d, "AvailableImmediately"))
	})(call)
}

// isVerificationRecordPublished reports whether the DNS has the TXT record or its MX alternative.
func (c *graphCall) isVerificationRecordPublished(name, token string) bool {
	if slices.Contains(c.s.lookupOrLog(c.r.Context(), name, "TXT"), "MS="+token) {
		return true
	}
	return slices.Contains(c.s.lookupOrLog(c.r.Context(), name, "MX"), token+".msv1.invalid")
}

// dnsRecord returns the properties that all DNS records of Graph share.
func dnsRecord(t *tenant, domain, kind, label string) object {
	odata := map[string]string{"Txt": "Txt", "Mx": "Mx", "CName": "Cname"}[kind]
	return object{
		"@odata.type": "#microsoft.graph.domainDns" + odata + "Record",
		"id":          guid("record", t.ID, domain, kind, label), "isOptional": false, "label": label,
		"recordType": kind, "supportedService": "Email", "ttl": 3600,
	}
}

// listServiceRecords answers GET /domains/{fqdn}/serviceConfigurationRecords. As at Microsoft, the
// list has no DKIM records.
func listServiceRecords(c *graphCall, t *tenant) result {
	found, refusal := c.visibleDomain(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	path := "domains('" + found.Name + "')/serviceConfigurationRecords"
	if !found.Verified || !found.isEmailEnabled() {
		switch t.Behaviour.EarlyRecords {
		case "refused":
			return errorResult(errNoServiceRecordsYet.with(found.Name))
		case "unavailable":
			unavailable := dnsRecord(t, found.Name, "", found.Name)
			unavailable["@odata.type"], unavailable["recordType"] = "#microsoft.graph.domainDnsUnavailableRecord", ""
			unavailable["description"] = "The records are available once the domain is verified and e-mail is enabled."
			return c.collection(path, []object{unavailable})
		}
		return c.collection(path, nil)
	}
	mx := dnsRecord(t, found.Name, "Mx", found.Name)
	mx["mailExchange"], mx["preference"] = t.mailExchange(found.Name), 0
	spf := dnsRecord(t, found.Name, "Txt", found.Name)
	spf["text"] = "v=spf1 include:spf.protection.outlook.com -all"
	autodiscover := dnsRecord(t, found.Name, "CName", "autodiscover."+found.Name)
	autodiscover["canonicalName"] = "autodiscover.outlook.com"
	return c.collection(path, []object{mx, spf, autodiscover})
}

// dashedName returns a domain as one label. It removes the dashes of the domain, and then replaces
// each dot by a dash. If the domain had dashes, it appends suffix, so that a-b.example and
// ab.example get different labels.
func dashedName(domain, suffix string) string {
	withoutDashes := strings.ReplaceAll(domain, "-", "")
	label := strings.ReplaceAll(withoutDashes, ".", "-")
	if withoutDashes != domain {
		label += suffix
	}
	return label
}

// mailExchange returns the host in the domain's MX record.
func (t *tenant) mailExchange(domain string) string {
	if t.Behaviour.MXStyle[domain] == "classic" {
		return dashedName(domain, "01b") + ".mail.protection.outlook.com"
	}
	return dashedName(domain, "01b") + "." + deriveLetter("mx", domain) + "-v1.mx.microsoft"
}

// documentationAddr is the address of the platform's hosts, because the simulator receives no mail.
// It is reserved for documentation (RFC 5737), so no host has it.
const documentationAddr = "192.0.2.25"

// ownZones returns the platform's zones, to which the MX, SPF and DKIM records of customers refer.
func ownZones() map[string][]simulate.Record {
	address := func(name string) simulate.Record {
		return simulate.Record{Type: "A", Name: name, Content: documentationAddr, TTL: 300}
	}
	text := func(name, content string) simulate.Record {
		return simulate.Record{Type: "TXT", Name: name, Content: content, TTL: 300}
	}
	return map[string][]simulate.Record{
		"outlook.com": {
			text("spf.protection.outlook.com", "v=spf1 ip4:40.92.0.0/15 ip4:40.107.0.0/16 ip4:52.100.0.0/15 ip4:52.102.0.0/16 "+
				"ip4:52.103.0.0/17 ip4:104.47.0.0/17 ip6:2a01:111:f400::/48 ip6:2a01:111:f403::/49 -all"),
			address("autodiscover.outlook.com"),
			address("*.mail.protection.outlook.com"),
		},
		"mx.microsoft":        {address("*.mx.microsoft")},
		"onmicrosoft.com":     {text("*.onmicrosoft.com", dkimKey)},
		"dkim.mail.microsoft": {text("*.dkim.mail.microsoft", dkimKey)},
	}
}

// dkimKey is the DKIM record that ownZones publishes for each selector. The private key was
// deleted, because the simulator signs no mail.
const dkimKey = "v=DKIM1; k=rsa; p=" +
	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtdutiQq6h/2/1kN15htrVNvX++Oh7bq2IYANevhj4slUaJeqYWcQwv/+" +
	"XMA8GBGbOytSrKiO10LCo9LjemKyyWnZVJyoczc0xEQmSZkz7VyyNBXPHnhhAH8NELls1HSVvBqw2BNjB/DL6POColTt3TSujooi" +
	"nFxquJqgWW9Ybp7fgGA4G5FqQrktWgSuZ0XlopigVz84CDlH4v5TIFsb02S8SGPsLGt5yhP0e8GPhQhVQ2RG+vWMxoJb8dTotf27" +
	"7cSoUEd/F3qp+8+LOIx6WR/d3E4h4m9/oAo0kyH/KS/x8IP9BGPMAevobCZXLlbGwqRGlrYJqyf/jLGkKMqKsQIDAQAB"
