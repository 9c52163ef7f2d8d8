module github.com/daybookq/daybook/job

go 1.26.0
