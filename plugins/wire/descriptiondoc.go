// SPDX-License-Identifier: Apache-2.0

package wire

// DescriptionDoc is the JSON document that the command `describe` of a plugin prints. The commands
// that add and test plugins read it, and so do builds.
type DescriptionDoc struct {
	Name         string              `json:"name"`
	Kind         string              `json:"kind"`
	Version      string              `json:"version"`
	Title        string              `json:"title"`
	Capabilities []string            `json:"capabilities"`
	Needs        map[string][]string `json:"needs,omitempty"`
	Fields       []fieldDoc          `json:"fields"`
	NameServers  []string            `json:"name_servers"`
	Budgets      []budgetDoc         `json:"budgets"`
	FaultDomain  string              `json:"fault_domain,omitempty"`
	Hosts        []string            `json:"hosts,omitempty"`
	MailPlatform *factsDoc           `json:"mail_platform,omitempty"`
}

// The parts of a DescriptionDoc.
type (
	factsDoc struct {
		BuiltinDomains    []string `json:"builtin_domains"`
		ExchangeHosts     []string `json:"exchange_hosts"`
		SigningHosts      []string `json:"signing_hosts"`
		VerificationHosts []string `json:"verification_hosts"`
		ApplicationField  string   `json:"application_field"`
		Administrator     string   `json:"administrator"`
		Withdrawal        string   `json:"withdrawal"`
		LeftRules         string   `json:"left_rules"`
	}
	fieldDoc struct {
		Name     string `json:"name"`
		Secret   bool   `json:"secret"`
		Required bool   `json:"required"`
		Default  string `json:"default"`
		Help     string `json:"help"`
		Account  bool   `json:"account"`
	}
	budgetDoc struct {
		Key           string         `json:"key"`
		Limit         int            `json:"limit"`
		WindowSeconds float64        `json:"window_seconds"`
		Costs         map[string]int `json:"costs,omitempty"`
		Only          []string       `json:"only,omitempty"`
	}
)

// DocOf returns the document of a description.
func DocOf(description Description) DescriptionDoc {
	doc := DescriptionDoc{
		Name: description.Name, Kind: string(description.Kind), Version: description.Version, Title: description.Title,
		Capabilities: append([]string{}, description.Capabilities...),
		Needs:        description.Needs, FaultDomain: description.FaultDomain, Hosts: description.Hosts,
		NameServers: append([]string{}, description.NameServers...),
		Fields:      []fieldDoc{},
		Budgets:     []budgetDoc{},
	}
	if f := description.MailPlatform; description.Kind == KindMail {
		doc.MailPlatform = &factsDoc{
			append([]string{}, f.BuiltinDomains...), append([]string{}, f.Hosts.Exchanges...), append([]string{}, f.Hosts.Signers...),
			append([]string{}, f.Hosts.Verification...), f.ApplicationField, f.Administrator, f.Withdrawal, f.LeftRules,
		}
	}
	for _, f := range description.Fields {
		doc.Fields = append(doc.Fields, fieldDoc(f))
	}
	for _, b := range description.Budgets {
		doc.Budgets = append(doc.Budgets, budgetDoc{Key: b.Key, Limit: b.Limit, WindowSeconds: b.Window.Seconds(), Costs: b.Costs, Only: b.Only})
	}
	return doc
}
