{#- A generic test: the contents of a stream table are not older than this. -#}
{% test fresher_than(model, interval) %}
  select pgt_name, staleness
    from pgtrickle.stream_tables_info
   where pgt_schema = {{ dbt_pgtrickle.literal(model.schema) }}
     and pgt_name = {{ dbt_pgtrickle.literal(model.identifier) }}
     and staleness > {{ dbt_pgtrickle.literal(interval) }}::interval
{% endtest %}
