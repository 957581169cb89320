{{ config(refresh_mode='DIFFERENTIAL', grants={'select': ['pg_monitor']}, tier='warm') }}
select region, count(*) as orders, sum(amount) as total from {{ ref('big_orders') }} group by region
