{#- dbt run-operation refresh --args '{names: [shop.revenue]}' -#}
{% macro refresh(names, full=false) %}
  {% for name in ([names] if names is string else names) %}
    {% do log(name ~ ': ' ~ dbt_pgtrickle.call('refresh_stream_table', {'name': name, 'full': full}), info=true) %}
  {% endfor %}
{% endmacro %}


{#- Every stream table that this project makes, each after those that it reads. -#}
{% macro models() %}
  {% set found = [] %}
  {% if execute %}
    {% set left = [] %}
    {% for node in graph.nodes.values()
        if node.resource_type == 'model' and node.config.materialized == 'stream_table' %}
      {% do left.append(node) %}
    {% endfor %}
    {% for round in range(left | length) %}
      {% set waiting = left | map(attribute='unique_id') | list %}
      {% for node in left | list if not (node.depends_on.nodes | select('in', waiting) | list) %}
        {% do found.append(api.Relation.create(schema=node.schema, identifier=node.alias)) %}
        {% do left.remove(node) %}
      {% endfor %}
    {% endfor %}
  {% endif %}
  {{ return(found) }}
{% endmacro %}


{% macro refresh_all() %}
  {% for relation in dbt_pgtrickle.models() if dbt_pgtrickle.is_stream_table(relation) %}
    {% do dbt_pgtrickle.refresh(dbt_pgtrickle.name_of(relation)) %}
  {% endfor %}
{% endmacro %}


{#- Drop the stream tables of this project; those that others read go last. -#}
{% macro drop_all() %}
  {% for relation in dbt_pgtrickle.models() | reverse if dbt_pgtrickle.is_stream_table(relation) %}
    {% set gone = dbt_pgtrickle.call('drop_stream_table', {'name': dbt_pgtrickle.name_of(relation), 'cascade': true}) %}
    {% do log(gone, info=true) %}
  {% endfor %}
{% endmacro %}


{#- Print how stream tables are doing, and fail if something is critical. -#}
{% macro operational_status() %}
  {% set rows = run_query('select check_name, severity, detail from pgtrickle.health_check()') %}
  {% if execute %}
    {% for row in rows %}
      {% do log(row['severity'] ~ ' ' ~ row['check_name'] ~ ': ' ~ row['detail'], info=true) %}
    {% endfor %}
    {% if 'CRITICAL' in rows.columns['severity'].values() %}
      {{ exceptions.raise_compiler_error('pgtrickle has critical findings') }}
    {% endif %}
  {% endif %}
{% endmacro %}


{% macro check_cdc_health() %}
  {% set rows = run_query('select source_table, cdc_mode, alert from pgtrickle.check_cdc_health()') %}
  {% if execute %}
    {% for row in rows %}
      {% do log(row['source_table'] ~ ': ' ~ row['cdc_mode'] ~ ' ' ~ (row['alert'] or 'ok'), info=true) %}
    {% endfor %}
    {% if rows.columns['alert'].values() | select | list %}
      {{ exceptions.raise_compiler_error('changes of a source are not captured as they should be') }}
    {% endif %}
  {% endif %}
{% endmacro %}
