// SPDX-License-Identifier: Apache-2.0

package sdk

// What `describe` prints. Its names are for builds and scripts to read.
type (
	descriptionDoc struct {
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

func descriptionJSON(d Description) descriptionDoc {
	doc := descriptionDoc{
		Name: d.Name, Kind: string(d.Kind), Version: d.Version, Title: d.Title,
		Capabilities: append([]string{}, d.Capabilities...),
		Needs:        d.Needs, FaultDomain: d.FaultDomain,
		NameServers: append([]string{}, d.NameServers...),
		Fields:      []fieldDoc{},
		Budgets:     []budgetDoc{},
	}
	for _, f := range d.Fields {
		doc.Fields = append(doc.Fields, fieldDoc(f))
	}
	for _, b := range d.Budgets {
		doc.Budgets = append(doc.Budgets, budgetDoc{Key: b.Key, Limit: b.Limit, WindowSeconds: b.Window.Seconds(), Costs: b.Costs, Only: b.Only})
	}
	return doc
}
