// Renders a chart as Helm would, for machines without Helm: the same template language and
// functions (text/template, sprig), values overlaid by --set, nothing looked up in a cluster.
//
//	go run render.go CHART [key.inner=value ...]
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func main() {
	if err := render(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(chart string, settings []string) error {
	about, values := map[string]any{}, map[string]any{}
	if err := read(filepath.Join(chart, "Chart.yaml"), &about); err != nil {
		return err
	}
	if err := read(filepath.Join(chart, "values.yaml"), &values); err != nil {
		return err
	}
	for _, setting := range settings {
		if err := set(values, setting); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	functions["lookup"] = func(...string) map[string]any { return map[string]any{} }
	functions["required"] = required
	functions["include"] = func(name string, data any) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all.Funcs(functions)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	// The names that Helm gives to what Chart.yaml holds.
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]any{"Name": "test", "Namespace": "default", "Service": "Helm"},
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") || strings.HasSuffix(name, ".txt") {
			continue
		}
		fmt.Printf("---\n# Source: %s\n", name)
		if err := all.ExecuteTemplate(os.Stdout, name, data); err != nil {
			return err
		}
	}
	return nil
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// Only keys that values.yaml has: a misspelt one must not pass.
func set(values map[string]any, setting string) error {
	path, text, _ := strings.Cut(setting, "=")
	steps := strings.Split(path, ".")
	inner := values
	for _, step := range steps[:len(steps)-1] {
		next, ok := inner[step].(map[string]any)
		if !ok {
			return fmt.Errorf("values.yaml has no %s", path)
		}
		inner = next
	}
	last := steps[len(steps)-1]
	if _, ok := inner[last]; !ok {
		return fmt.Errorf("values.yaml has no %s", path)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	inner[last] = value
	return nil
}

func toYaml(value any) (string, error) {
	var out bytes.Buffer
	writer := yaml.NewEncoder(&out)
	writer.SetIndent(2)
	err := writer.Encode(value)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func required(why string, value any) (any, error) {
	if value == nil || value == "" {
		return nil, fmt.Errorf("%s", why)
	}
	return value, nil
}
