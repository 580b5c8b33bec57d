module muster/testdata/mutants

go 1.26.0
