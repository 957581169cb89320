{#- Run a procedure of pgtrickle and return its answer.

    The daemon works in transactions of its own, so a CALL must stand outside of a transaction block.
    dbt opens one by itself: what went before is committed first. -#}
{% macro call(procedure, arguments) %}
  {% if not execute %}{{ return(none) }}{% endif %}
  {% set given = [] %}
  {% for name, value in arguments.items() %}
    {% if value is not none %}
      {% do given.append(adapter.quote(name) ~ ' => ' ~ dbt_pgtrickle.literal(value)) %}
    {% endif %}
  {% endfor %}
  {% call statement('pgtrickle_commit', auto_begin=False) %}commit{% endcall %}
  {% call statement('pgtrickle_call', fetch_result=True, auto_begin=False) -%}
    call pgtrickle.{{ procedure }}({{ given | join(', ') }})
  {%- endcall %}
  {% set answer = load_result('pgtrickle_call')['data'] %}
  {{ return(answer[0][0] if answer else none) }}
{% endmacro %}


{#- Write a value as SQL: what it holds never becomes a part of the statement. -#}
{% macro literal(value) %}
  {%- if value is sameas true -%}{{ return('true') }}
  {%- elif value is sameas false -%}{{ return('false') }}
  {%- elif value is number -%}{{ return(value | string) }}
  {%- else -%}
    {%- set text = value | string | replace("'", "''") -%}
    {{ return(("E'" ~ (text | replace('\\', '\\\\')) ~ "'") if '\\' in text else ("'" ~ text ~ "'")) }}
  {%- endif -%}
{% endmacro %}


{#- The options that a procedure takes, as the database says: there is no list of them here. -#}
{% macro options_of(procedure) %}
  {% set query %}
    select distinct a.name
      from pg_catalog.pg_proc as p,
           unnest(p.proargnames, p.proargmodes) as a (name, mode)
     where p.pronamespace = 'pgtrickle'::regnamespace and p.prokind = 'p'
       and p.proname = {{ dbt_pgtrickle.literal(procedure) }}
       and coalesce(a.mode, 'i') = 'i' and a.name not in ('name', 'query')
  {% endset %}
  {{ return(run_query(query).columns[0].values() | list if execute else []) }}
{% endmacro %}


{#- Whether a relation is a stream table. -#}
{% macro is_stream_table(relation) %}
  {% set query %}
    select exists (select from pgtrickle.pgt_stream_tables
                    where pgt_schema = {{ dbt_pgtrickle.literal(relation.schema) }}
                      and pgt_name = {{ dbt_pgtrickle.literal(relation.identifier) }}) as found
  {% endset %}
  {{ return(run_query(query).columns[0].values()[0] if execute else false) }}
{% endmacro %}


{#- The name of a relation, as pgtrickle reads names: without the database. -#}
{% macro name_of(relation) %}
  {{ return(relation.include(database=false).render()) }}
{% endmacro %}
