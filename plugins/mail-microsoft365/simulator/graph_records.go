// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// dnsRecord is what all records of Graph have in common.
func dnsRecord(t *tenant, domain, kind, label string) object {
	odata := map[string]string{"Txt": "Txt", "Mx": "Mx", "CName": "Cname"}[kind]
	return object{
		"@odata.type": "#microsoft.graph.domainDns" + odata + "Record",
		"id":          guid("record", t.ID, domain, kind, label), "isOptional": false, "label": label,
		"recordType": kind, "supportedService": "Email", "ttl": 3600,
	}
}

// serviceRecords answers GET /domains/{fqdn}/serviceConfigurationRecords.
// DKIM records are never in this list.
func serviceRecords(c *graphCall, t *tenant) result {
	d, refused := c.readDomain(t)
	if refused != nil {
		return refuse(refused)
	}
	of := "domains('" + d.Name + "')/serviceConfigurationRecords"
	if !d.Verified || !d.mail() {
		switch t.Behaviour.EarlyRecords {
		case "refused":
			return refuse(errEarly.of(d.Name))
		case "unavailable":
			why := dnsRecord(t, d.Name, "", d.Name)
			why["@odata.type"], why["recordType"] = "#microsoft.graph.domainDnsUnavailableRecord", ""
			why["description"] = "The records are available once the domain is verified and e-mail is enabled."
			return c.many(of, []object{why})
		}
		return c.many(of, nil)
	}
	mx := dnsRecord(t, d.Name, "Mx", d.Name)
	mx["mailExchange"], mx["preference"] = t.mailExchange(d.Name), 0
	spf := dnsRecord(t, d.Name, "Txt", d.Name)
	spf["text"] = "v=spf1 include:spf.protection.outlook.com -all"
	auto := dnsRecord(t, d.Name, "CName", "autodiscover."+d.Name)
	auto["canonicalName"] = "autodiscover.outlook.com"
	return c.many(of, []object{mx, spf, auto})
}

// dashed is a domain as one label: dots become dashes; a domain that holds
// dashes itself loses them and gets a suffix, so that two cannot collide.
func dashed(domain, suffix string) string {
	bare := strings.ReplaceAll(domain, "-", "")
	out := strings.ReplaceAll(bare, ".", "-")
	if bare != domain {
		out += suffix
	}
	return out
}

// mailExchange is the host that receives a domain's mail.
func (t *tenant) mailExchange(domain string) string {
	if t.Behaviour.MXStyle[domain] == "classic" {
		return dashed(domain, "01b") + ".mail.protection.outlook.com"
	}
	return dashed(domain, "01b") + "." + letter("mx", domain) + "-v1.mx.microsoft"
}
